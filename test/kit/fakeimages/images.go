package fakeimages

import "github.com/liveconfig-csi/liveconfig/test/kit/realnode"

// byRepository returns the images without their tags.
func byRepository() map[string]realnode.FakeImage {
	return map[string]realnode.FakeImage{
		"busybox":                     {},
		"nginxinc/nginx-unprivileged": {Programs: map[string]string{"nginx": nginxScript, "curl": curlScript}, Cmd: []string{"nginx"}},
		"prom/prometheus":             {Programs: map[string]string{"prometheus": prometheusScript}, Entrypoint: []string{"prometheus"}},
		"redis":                       {Programs: map[string]string{"redis-server": redisScript}, Cmd: []string{"redis-server"}},
	}
}

const (
	nginxScript = `exec httpd -f -p 8080 -h /usr/share/nginx/html`

	curlScript = `
[ $# = 2 ] && [ "$1" = --silent ] || { echo "curl: not known here: $*" >&2; exit 2; }
exec wget -q -O - "$2"`

	// prometheusScript prints the configuration and all files that it names. With its lifecycle it reads the configuration again
	// when it is asked to.
	prometheusScript = `
set -e
config=
serve=
for arg; do
	case $arg in
	--config.file=*) config=${arg#*=} ;;
	--web.enable-lifecycle) serve=1 ;;
	esac
done
cat "$config"
# What a pattern matches must not be quoted here.
for file in $(sed -n -e 's/.*password_file: *//p' -e 's/.*files: *\[\(.*\)\].*/\1/p' "$config"); do
	cat "$file" || exit 1
done
[ -z "$serve" ] || exec box serve "$config" :9090
exec box pause`

	// redisScript prints its configuration with all that it includes, and the files of its TLS.
	redisScript = `
set -e
if [ "$1" = - ]; then
	while IFS= read -r line; do
		case $line in
		"include "*) for file in ${line#include }; do [ ! -e "$file" ] || cat "$file" || exit 1; done ;;
		*) echo "$line" ;;
		esac
	done
	exec box pause
fi
while [ $# -gt 1 ]; do
	case $1 in *-file) cat "$2" || exit 1 ;; esac
	shift
done
exec box pause`
)

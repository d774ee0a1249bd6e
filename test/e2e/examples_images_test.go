package e2e_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/liveconfig-csi/liveconfig/test/kit/machine"
)

// The node has no registry, so the images of the examples stand in for the real ones: busybox under their names. What is
// busybox there is busybox here. In place of the servers are the scripts below, which do with the files what the real ones
// do at the start, and fail as they would when they cannot read one. The kubelet, the runtime, the driver and the files
// are real, and so are the users that the containers run as.
func standIns() map[string]machine.StandIn {
	return map[string]machine.StandIn{
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

	// prometheusScript prints the configuration and all files that it names.
	prometheusScript = `
set -e
config=
for arg; do
	case $arg in --config.file=*) config=${arg#*=} ;; esac
done
cat "$config"
# What a pattern matches must not be quoted here.
for file in $(sed -n -e 's/.*password_file: *//p' -e 's/.*files: *\[\(.*\)\].*/\1/p' "$config"); do
	cat "$file" || exit 1
done
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

// importExampleImages gives the node an image for each that a manifest of the examples names.
func (s *site) importExampleImages(t *testing.T) {
	t.Helper()
	var images []machine.StandIn
	for _, ref := range imagesIn(t, filepath.Join(s.Repo(), "examples")) {
		repository, _, _ := strings.Cut(ref, ":")
		if repository == "registry.example.com/liveconfig" { // The driver is installed from that one.
			continue
		}
		image, found := standIns()[repository]
		if !found {
			t.Fatalf("nothing stands in for the image %s of the examples", ref)
		}
		image.Ref = ref
		images = append(images, image)
	}
	if err := s.ImportStandIns(t.Context(), images...); err != nil {
		t.Fatal(err)
	}
}

#!/usr/bin/env bash
# Unpacks packages of Debian or Ubuntu into a folder of bin/, without installing them: nothing is started, and no other
# runtime or server of this machine is touched. It needs apt, and no root but for the very first look at a mirror.
#
#   test/tools/debian.sh            the container runtime, network plugins and busybox, into bin/debian
#   test/tools/debian.sh servers    servers that read files of volumes, promtool, and their libraries, into bin/debian-servers
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
case ${1:-} in
servers)
	out=$root/bin/debian-servers
	packages=(
		caddy haproxy nginx postgresql-15 postgresql-client-15 prometheus prometheus-alertmanager redis-server redis-tools rsyslog
	)
	;;
*) out=$root/bin/debian packages=(busybox-static containerd containernetworking-plugins runc) ;;
esac
# Another release of the distribution has other packages.
wanted="$(. /etc/os-release && echo "$ID $VERSION_ID"): ${packages[*]}"

[[ $(cat "$out/.packages" 2>/dev/null) != "$wanted" ]] || exit 0

if [[ -z $(type -P apt-get) || -z $(type -P dpkg-deb) ]]; then
	echo "apt-get and dpkg-deb are needed for ${packages[*]}: tests of a real node run on Debian and Ubuntu." >&2
	exit 1
fi
mkdir -p "$root/bin"
exec 9>"$root/bin/.${out##*/}.lock"
flock 9
staging=$(mktemp -d "$root/bin/.debian-XXXXXX")
trap 'rm -rf "$staging"' EXIT
cd "$staging"
echo "fetching ${packages[*]}"
fetch() { apt-get download -q -o APT::Sandbox::User="$(id -un)" "${packages[@]}" >fetch.log 2>&1; }
# Lists of packages that are missing or old name files that a mirror no longer has.
if ! fetch && ((EUID == 0)); then
	apt-get update -qq
	fetch || true
fi
if [[ ${1:-} == servers ]]; then
	# Libraries that the machine has are not unpacked. The others are what an installation would add.
	mapfile -t libraries < <(apt-get -s install --no-install-recommends "${packages[@]}" 2>/dev/null |
		awk '$1 == "Inst" && $2 ~ /^lib/ && $2 !~ /^lib(js|nginx)-/ && $3 !~ /^\[/ { print $2 }')
	packages+=("${libraries[@]}")
	fetch || true
fi
for package in "${packages[@]}"; do
	files=("$package"_*.deb)
	if [[ ! -e ${files[0]} ]]; then
		cat fetch.log >&2
		echo "apt cannot fetch $package; type: sudo apt-get update, and try again" >&2
		exit 1
	fi
	dpkg-deb -x "${files[0]}" tree
	rm "${files[0]}"
done
rm -rf tree/usr/share/doc # Examples in Go would be packages of this module.
echo "$wanted" >tree/.packages
rm -rf "$out"
mv tree "$out"

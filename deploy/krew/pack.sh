#!/usr/bin/env bash
# Makes what Krew installs: an archive of the plugin for each platform of liveconfig.yaml, and that manifest with the
# version and the archives' digests filled in.
#
#   deploy/krew/pack.sh VERSION OUT [PROGRAMS]
#
# VERSION is a tag, such as v0.3.0. PROGRAMS is a folder with programs that are built already, OS-ARCH/kubectl-liveconfig;
# the others are built. The same commit gives the same bytes.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
if (($# < 2 || $# > 3)) || [[ ! $1 =~ ^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$ ]]; then
	echo "usage: $0 vMAJOR.MINOR.PATCH OUT [PROGRAMS]" >&2
	exit 2
fi
version=$1
mkdir -p "$2"
out=$(cd "$2" && pwd)
programs=${3:+$(cd "$3" && pwd)}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# pack OS ARCH: writes the archive of a platform.
pack() {
	local program=kubectl-liveconfig folder=$work/$1-$2
	[[ $1 != windows ]] || program+=.exe
	mkdir "$folder"
	if [[ -n $programs && -e $programs/$1-$2/$program ]]; then
		cp "$programs/$1-$2/$program" "$folder/"
	else
		(cd "$root" && CGO_ENABLED=0 GOOS=$1 GOARCH=$2 GOFLAGS=-mod=readonly GOWORK=off go build -buildvcs=true -trimpath \
			-ldflags='-s -w' -o "$folder/$program" ./cmd/kubectl-liveconfig)
	fi
	cp "$root/LICENSE" "$folder/"
	chmod 755 "$folder/$program"
	chmod 644 "$folder/LICENSE"
	tar --create --directory="$folder" --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --format=ustar \
		LICENSE "$program" | gzip --no-name --best >"$out/kubectl-liveconfig-$1-$2.tar.gz"
}

# A digest belongs to the uri before it.
while IFS= read -r line; do
	case $line in
	*' uri: '*)
		archive=${line##*/}
		platform=${archive#kubectl-liveconfig-}
		platform=${platform%.tar.gz}
		pack "${platform%-*}" "${platform#*-}"
		;;
	*' sha256: SHA256')
		digest=$(sha256sum "$out/$archive")
		line=${line/SHA256/${digest%% *}}
		;;
	'# '*) continue ;; # It is about the template.
	esac
	printf '%s\n' "${line//VERSION/$version}"
done <"$root/deploy/krew/liveconfig.yaml" >"$work/liveconfig.yaml"
mv "$work/liveconfig.yaml" "$out/liveconfig.yaml"

#!/usr/bin/env bash
# Makes everything that a version of the project consists of, below bin/release/:
#
#   image/                      what `make image` writes: an OCI layout for amd64 and arm64, and the list of its content
#   files/install.yaml          the driver's objects, with the image by tag and digest
#   files/liveconfig-*.tgz      the chart, whose image is the one of this version
#   files/kubectl-liveconfig-*  the plugin for each platform, and liveconfig.yaml, its manifest for Krew
#   files/sbom.cdx.json         the list of the image's content
#   files/SHA256SUMS            the digests of all these files
#
#   deploy/release.sh VERSION REGISTRY [push]
#
# VERSION is a tag of the commit that is checked out, such as v0.3.0; REGISTRY is where image and chart belong, such as
# ghcr.io/liveconfig-csi. With push it sends both there, with the credentials of docker login, and lists their digests in
# bin/release/pushed. PROGRAMS names a folder with plugins that are built already, see krew/pack.sh. It needs
# bin/tools/helm, which `make bin/helm` builds.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
if (($# < 2 || $# > 3)) || [[ ! $1 =~ ^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$ || ${3:-push} != push ]]; then
	echo "usage: $0 vMAJOR.MINOR.PATCH REGISTRY [push]" >&2
	exit 2
fi
tag=$1 version=${1#v} registry=$2 push=${3:-}
out=$root/bin/release
files=$out/files

fail() { echo "$0: $*" >&2 && exit 1; }

# The programs know their version by git's metadata, and the chart by its Chart.yaml.
git tag --points-at HEAD | grep -qxF "$tag" || fail "the commit has no tag $tag: type git tag $tag"
[[ -z $(git status --porcelain) ]] || fail "the checkout has changes that are not committed: type git status"
for field in version appVersion; do
	grep -qxF "$field: $version" deploy/chart/Chart.yaml || fail "deploy/chart/Chart.yaml has no line «$field: $version», which $tag needs"
done

rm -rf "$out"
mkdir -p "$files"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export HELM_CACHE_HOME=$work HELM_CONFIG_HOME=$work HELM_DATA_HOME=$work
helm=$root/bin/tools/helm

image=$registry/liveconfig:$version
# It prints the image, its digest and the folder.
digest=$(go -C deploy/image run . --image "$image" --out "$out/image" ${push:+--push} | cut -d' ' -f2)
cp "$out/image/sbom.cdx.json" "$files/"

cp -r deploy/chart "$work/chart"
sed -i "/^image:/,/^  repository:/s|^  repository: .*|  repository: $registry/liveconfig|" "$work/chart/values.yaml"
"$helm" package "$work/chart" --destination "$files" >/dev/null
{
	echo "# liveconfig $tag: the driver, for Kubernetes 1.35 or later. kubectl apply -f install.yaml"
	"$helm" template liveconfig "$work/chart" --namespace liveconfig-system --kube-version 1.36.0 \
		--set "namespace.create=true,image.repository=$image,image.digest=$digest"
} >"$files/install.yaml"

deploy/krew/pack.sh "$tag" "$files" ${PROGRAMS:+"$PROGRAMS"}
(cd "$files" && sha256sum -- * >"$work/SHA256SUMS" && mv "$work/SHA256SUMS" .)
[[ -n $push ]] || exit 0

plain=()
[[ $registry != 127.0.0.1:* && $registry != localhost:* ]] || plain=(--plain-http)
"$helm" push "$files/liveconfig-$version.tgz" "oci://$registry/charts" "${plain[@]}" 2>&1 | tee "$work/push" >&2
printf '%s\n' "$registry/liveconfig@$digest" \
	"$registry/charts/liveconfig@$(sed -n 's/^Digest: *//p' "$work/push")" >"$out/pushed"

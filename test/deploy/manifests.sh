#!/usr/bin/env bash
# Writes the objects of deploy/base from the chart, one file for each of its templates.
#
#   test/deploy/manifests.sh [FOLDER]     writes into FOLDER; deploy/base when none is given
#
# It needs bin/tools/helm, which `make bin/helm` builds.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
out=${1:-$root/deploy/base}
staging=$(mktemp -d)
trap 'rm -rf "$staging"' EXIT

# Helm's own folders, so that nothing of this user's has a part in it.
export HELM_CACHE_HOME=$staging HELM_CONFIG_HOME=$staging HELM_DATA_HOME=$staging
"$root/bin/tools/helm" template liveconfig "$root/deploy/chart" --namespace liveconfig-system --kube-version 1.35.0 \
	--set namespace.create=true,image.repository=liveconfig,image.tag=dev --output-dir "$staging/out" >/dev/null

for file in "$staging"/out/liveconfig/templates/*.yaml; do
	name=${file##*/}
	{
		echo "# Written by \`make manifests\` from deploy/chart/templates/$name."
		# Helm says where each object comes from, and puts lines around it.
		awk '/^# Source: /{ next } /^---$/ { if (some) print; next } /./ { print; some = 1 }' "$file"
	} >"$out/$name.new"
	mv "$out/$name.new" "$out/$name"
done

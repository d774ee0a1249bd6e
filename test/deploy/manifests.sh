#!/usr/bin/env bash
# Writes the objects of deploy/base, deploy/controller and deploy/admission from the chart, one file for each template.
#
#   test/deploy/manifests.sh [FOLDER]     writes into FOLDER/base and so on; deploy when none is given
#
# It needs bin/tools/helm, which `make bin/helm` builds.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
out=${1:-$root/deploy}
staging=$(mktemp -d)
trap 'rm -rf "$staging"' EXIT

# Helm's own folders, so that nothing of this user's has a part in it.
export HELM_CACHE_HOME=$staging HELM_CONFIG_HOME=$staging HELM_DATA_HOME=$staging
"$root/bin/tools/helm" template liveconfig "$root/deploy/chart" --namespace liveconfig-system --kube-version 1.36.0 \
	--set namespace.create=true,controller.enabled=true,admission.volumes=true,admission.validation=true \
	--set image.repository=liveconfig,image.tag=dev --output-dir "$staging/out" >/dev/null

# write FOLDER TEMPLATES writes the objects of one folder of templates.
write() {
	local templates=liveconfig/templates$2 file name

	mkdir -p "$out/$1"
	for file in "$staging/out/$templates"/*.yaml; do
		name=${file##*/}
		{
			echo "# Written by \`make manifests\` from deploy/chart/templates$2/$name."
			# Helm says where each object comes from, and puts lines around it.
			awk '/^# Source: /{ next } /^---$/ { if (some) print; next } /./ { print; some = 1 }' "$file"
		} >"$out/$1/$name.new"
		mv "$out/$1/$name.new" "$out/$1/$name"
	done
}

write base ""
write controller /controller
write admission /admission

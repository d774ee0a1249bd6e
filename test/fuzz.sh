#!/usr/bin/env bash
# Runs every fuzz target of the project's module, each for FUZZTIME (default 30s).
#
#   test/fuzz.sh [DURATION]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

targets=$(go test -json -list='^Fuzz' ./... | sed -nE 's/.*"Package":"([^"]*)","Output":"(Fuzz[^\\"]*).*/\1 \2/p')
[[ -n $targets ]] || { echo "no fuzz target found" >&2 && exit 1; }

while read -r package target; do
	echo "== $package $target"
	go test -run='^$' -fuzz="^$target\$" -fuzztime="${1:-30s}" "$package"
done <<<"$targets"
echo "$(wc -l <<<"$targets") fuzz targets ran without a finding"

#!/usr/bin/env bash
# Tests folders of this repository with the race detector, in random order, under one summary.
#
#   test/go-test.sh FOLDER...
#
# Each folder is one whose packages, at any depth, are tested: . is the project's module, test and what is below it is
# the tests' own. A skipped test is a failure, unless test/skips-allowed.txt has the line that the message shows.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# gotestsum calls this script again with the same arguments, to get the events of all the runs as one stream.
if [[ -n ${LIVECONFIG_TEST_EVENTS:-} ]]; then
	status=0
	for folder; do
		go -C "$folder" test -json -race -shuffle=on ./... || status=$?
	done
	exit "$status"
fi

mkdir -p bin/test
events=bin/test/events.json
status=0
LIVECONFIG_TEST_EVENTS=1 bin/tools/gotestsum --format "${GOTESTSUM_FORMAT:-pkgname}" --format-hide-empty-pkg \
	--jsonfile "$events" --raw-command -- test/go-test.sh "$@" || status=$?

# A package without tests is skipped as well, but such an event names no test.
skips=$(sed -nE '/"Action":"skip"/s/.*"Package":"([^"]*)","Test":"([^"]*)".*/\1 \2/p' "$events")
unwanted=$(grep -vxFf <(grep -v '^#' test/skips-allowed.txt) <<<"$skips" | grep . || true)
if [[ -n $unwanted ]]; then
	printf 'Skipped, and nothing allows it:\n%s\n' "$unwanted" >&2
	exit 1
fi
exit "$status"

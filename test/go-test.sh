#!/usr/bin/env bash
# Tests folders of this repository with the race detector, in random order, under one summary.
#
#   test/go-test.sh FOLDER...
#
# Each folder is one whose packages, at any depth, are tested: . is the project's module, test and what is below it is
# the tests' own. A skipped test is a failure, unless test/skips-allowed.txt has the line that the message shows.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

events=bin/test/events.json

# run tests each folder, and fails if one of them did.
run() {
	local status=0 folder
	for folder; do
		SECONDS=0
		go -C "$folder" test -json -race -shuffle=on -timeout="${TEST_TIMEOUT:-30m}" -exec="'$PWD/test/exec.sh'" ./... || status=$?
		printf '  tests of %s: %dm%02ds\n' "$folder" $((SECONDS / 60)) $((SECONDS % 60)) >>bin/test/stages
	done
	return "$status"
}

# counts prints what tests have counted, from events.
counts() { sed -nE 's/.*"Action":"attr".*"Key":"([^"]*)","Value":"([^"]*)".*/  \1: \2/p' "$1" | sort; }

# gotestsum calls this script again with the same arguments, to get the events of all the runs as one stream. The counts
# go to descriptor 3, past gotestsum, so that its summary comes last.
if [[ -n ${LIVECONFIG_TEST_EVENTS:-} ]]; then
	status=0
	run "$@" | tee "$events.part" || status=$?
	[[ -z $(counts "$events.part") ]] || { echo "What tests counted:" && counts "$events.part"; } >&3
	{ echo "What it took:" && cat bin/test/stages && rm bin/test/stages; } >&3
	exit "$status"
fi

mkdir -p bin/test
exec 3>&1
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

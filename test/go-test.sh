#!/usr/bin/env bash
# Runs tests under one summary.
#
#   test/go-test.sh SUITE|FOLDER...
#
# A suite is one of those below; a folder is one whose packages, at any depth, are tested. A skipped test is a failure,
# unless test/skips-allowed.txt has the line that the message shows. In continuous integration (CI is set) tests run in
# random order; elsewhere the go command does not run again what has not changed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

events=$(tr -c 'A-Za-z0-9.\n' '-' <<<"$*${LIVECONFIG_KUBERNETES:+ $LIVECONFIG_KUBERNETES}")
events=bin/test/events/$events.json # They stay, for the summary of several runs.
stages=bin/test/stages

# others lists the packages of the tests' module that are in no suite before `rest`, and do not run at night.
others() {
	go -C test list ./... | sed 's#^github.com/liveconfig-csi/liveconfig/test#.#' |
		grep -vxE '\./(driver|sanity|cli|rules|volume|vm|vmnode|shells|krew|dryrun|site)(/.*)?' | tr '\n' ' '
}

# suite NAME sets the folder of the module, and what go test is given there.
suite() {
	local as_root=-exec="'$PWD/test/exec.sh'" # Where that is needed; it also keeps results from being kept.
	# Programs that tests run are built with -race, or as they ship: tests that are built so too share their packages.
	local shared=(-trimpath)
	export CGO_ENABLED=0
	case $1 in
	unit) folder=. packages=(-race ./...) ;;                                            # Tests beside the code.
	product) folder="test" packages=("${shared[@]}" ./driver ./sanity ./cli ./rules) ;; # Processes, which have the race detector.
	race) folder="test" packages=(-race ./volume) ;;                                    # Product code in the tests' own process.
	test/bench) folder=$1 packages=(-race ./...) ;;                                     # The same, and what measures.
	rest)
		folder="test"
		read -ra packages <<<"$(others)"
		packages=("$as_root" "${shared[@]}" "${packages[@]}")
		;;
	night) folder="test" packages=("$as_root" "${shared[@]}" ./vm/... ./vmnode/... ./shells/... ./krew/... ./dryrun/... ./site/...) ;;
	version-driver) folder="test" packages=("${shared[@]}" ./driver) ;; # With another version of Kubernetes: see test/versions.sh.
	version-node) folder="test" packages=("$as_root" "${shared[@]}" -run='^Test(CoreOnContainerd2|PodsOutliveTheirNode)$' ./e2e) ;;
	test/tools/*) folder=$1 packages=("${shared[@]}" ./...) ;;
	test/*) folder="test" packages=("$as_root" "${shared[@]}" "./${1#test/}/...") ;;
	*) folder=$1 packages=("${shared[@]}" ./...) ;;
	esac
	[[ " ${packages[*]} " != *" -race "* ]] || CGO_ENABLED=1 # The race detector is C code.
}

# inputs names everything that tests rest on and the go command does not see: the programs that they run and, for those of
# the tests' module, what is outside of it or built by them.
inputs() {
	{
		cat bin/*/.*.sum 2>/dev/null || true
		[[ $1 == . ]] || find . \( -path ./.git -o -path ./bin -o -path ./test \) -prune -o -type f -print0 | sort -z | xargs -0 sha256sum
		[[ $1 == . ]] || find test/kit test/bench/scale/nodes -type f -name '*.go' -print0 | sort -z | xargs -0 sha256sum
	} | sha256sum | cut -c1-16
}

# run tests each suite, and fails if one of them did.
run() {
	local status=0 name folder packages order=() depends
	[[ -z ${CI:-} ]] || order=(-shuffle=on)
	for name; do
		SECONDS=0
		suite "$name"
		# Lint vets all code. No test has the name of inputs: a result that is kept is one of these inputs.
		depends=-skip="^inputs:$(inputs "$folder")\$"
		go -C "$folder" test -json -timeout="${TEST_TIMEOUT:-50m}" -vet=off "${order[@]}" "$depends" "${packages[@]}" || status=$?
		printf '  tests of %s: %dm%02ds\n' "$name" $((SECONDS / 60)) $((SECONDS % 60)) >>"$stages"
	done
	return "$status"
}

# counts prints what tests have counted, from events.
counts() { sed -nE 's/.*"Action":"attr".*"Key":"([^"]*)","Value":"([^"]*)".*/  \1: \2/p' "$1" | sort; }

# gotestsum calls this script again with the same arguments, to get the events of all the runs as one stream. The counts
# go to descriptor 3, past gotestsum, so that its summary comes last.
if [[ -n ${LIVECONFIG_TEST_EVENTS:-} ]]; then
	unset LIVECONFIG_TEST_EVENTS
	export GORACE="${GORACE:-atexit_sleep_ms=0}" # The race detector has each program that ends wait for a second.
	status=0
	run "$@" | tee "$events.part" || status=$?
	[[ -z $(counts "$events.part") ]] || { echo "What tests counted:" && counts "$events.part"; } >&3
	rm "$events.part"
	{ echo "What it took:" && cat "$stages" && rm "$stages"; } >&3
	exit "$status"
fi

mkdir -p bin/test/events
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

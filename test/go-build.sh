#!/usr/bin/env bash
# Runs go build, and shows how much is done and about how long the rest takes.
#
#   test/go-build.sh WHAT FOLDER ARGUMENTS-OF-GO-BUILD...
set -euo pipefail

what=$1
cd "$2"
shift 2

elapsed() { printf '%dm%02ds' $(($1 / 60)) $(($1 % 60)); }

# stale prints how many packages are not in the build cache.
stale() {
	local arguments=() skip=
	for argument; do
		if [[ -n $skip ]]; then
			skip=
		elif [[ $argument == -o ]]; then
			skip=yes
		else
			arguments+=("$argument")
		fi
	done
	go list -deps -f '{{if .Stale}}stale{{end}}' "${arguments[@]}" | grep -c stale || true
}

echo "building $what; fetching modules first, unless they are here"
total=$(stale "$@")
log=$(mktemp)
pid=
trap '[[ -z $pid ]] || kill "$pid" 2>/dev/null || true; rm -f "$log"' EXIT
trap 'exit 130' INT TERM
SECONDS=0
# -v prints a line for each package. The compiler takes an eighth less time when it collects garbage less often.
GOGC=400 nice -n 5 go build -v "$@" >"$log" 2>&1 9>&- & # Not with a lock of the caller.
pid=$!
next=10
while kill -0 "$pid" 2>/dev/null; do
	if ((SECONDS >= next)); then
		now=$SECONDS
		next=$((now + 10))
		compiled=$(wc -l <"$log")
		((compiled > total)) && compiled=$total
		if ((compiled > 0 && compiled < total)); then
			echo "  $compiled of $total packages compiled after $(elapsed "$now"); about $(elapsed $((now * (total - compiled) / compiled))) left"
		else
			echo "  $compiled of $total packages compiled after $(elapsed "$now"); the last steps take longest"
		fi
	fi
	sleep 0.2
done
status=0
wait "$pid" || status=$?
pid=
if ((status)); then
	tail -n 40 "$log" >&2
	echo "the build of $what ended with an error; the end of its output is above" >&2
	exit 1
fi
echo "  built $what in $(elapsed "$SECONDS")"

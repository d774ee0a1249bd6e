# shellcheck shell=bash
# What scripts that walk through an example share: they print what they type, check what comes of it, and stop with an error
# where that is not so. They work in a namespace of their own, which must not exist and is deleted in the end. After an error
# it stays for whoever wants to look.
#
# A script sets namespace, and then reads this file.

# patience is how many seconds anything may take; calm is for how many nothing may happen where nothing should. The
# controller waits two seconds before it rolls out a change.
patience=120
calm=8

# kubectl is for the namespace, but for what is done to the namespace itself. A plugin takes flags after its name.
kubectl() {
	if [[ ${2:-} != namespace ]]; then
		local at=0
		[[ $1 != liveconfig ]] || at=1
		set -- "${@:1:at}" --namespace="${namespace:?}" "${@:at+1}"
	fi
	command kubectl "$@"
}

step() { printf '\n# %s\n' "$*"; }

fail() {
	printf '%s\n' "${0##*/}: $*" "Look at namespace $namespace, and then delete it." >&2
	exit 1
}

# run prints a command as one would type it, and runs it.
run() {
	local word
	printf '$'
	for word; do
		[[ $word =~ ^[A-Za-z0-9_./:=@,-]+$ ]] || word=${word@Q}
		printf ' %s' "$word"
	done
	printf '\n'
	"$@"
}

# eventually waits until a command succeeds. The first word says what it waits for.
eventually() {
	local what=$1 end=$((SECONDS + patience))
	shift
	until "$@"; do
		((SECONDS < end)) || fail "after $patience seconds not so: $what"
		sleep 1
	done
}

# stays wants a command to succeed at all times in the next seconds. The first word says what is so meanwhile.
stays() {
	local what=$1 end=$((SECONDS + calm))
	shift
	while ((SECONDS < end)); do
		"$@" || fail "no longer so: $what"
		sleep 1
	done
}

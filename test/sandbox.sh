#!/usr/bin/env bash
# Starts a Kubernetes cluster of one real node on this machine, with the driver and the rollout controller, and runs a
# shell in it. Everything is removed when the shell ends.
#
#   test/sandbox.sh                  a shell at the terminal, or for commands from a pipe
#   test/sandbox.sh COMMAND-LINE     one command line in place of the shell; its exit status is the script's
#
# The cluster needs root. The script first builds what is missing, as this user. Progress goes to stderr.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
out=$root/bin/test/sandbox

if (($# > 1)); then
	echo "Give one command line, in quotes: test/sandbox.sh 'kubectl get pods'" >&2
	exit 2
fi
if ((EUID != 0)) && ! sudo --non-interactive true 2>/dev/null; then
	echo "The sandbox runs a kubelet, which needs root, and sudo asks for a password or is missing. Type one of these:" >&2
	echo "  sudo --validate && make sandbox         # builds as you" >&2
	echo "  sudo env \"PATH=\$PATH\" make sandbox     # builds as root; PATH is for go" >&2
	exit 1
fi

# The programs below must not see the variables of a make that called this script.
unset "${!MAKE@}" MFLAGS CMD

# stage NAME COMMAND... runs a command and prints how long it took. It leaves stdin to the shell.
stage() {
	local name=$1 begin=$SECONDS
	shift
	"$@" </dev/null >&2
	echo "$name after $((SECONDS - begin))s" >&2
}

programs() {
	make --silent --no-print-directory -C "$root" bin/node bin/helm build
	CGO_ENABLED=0 go -C "$root/test" build -trimpath -ldflags='-s -w' -o "$out/" ./sandbox ./kit/realnode/box
}

# The image has the name that the README installs. Another sandbox may be reading the one that is there.
image() {
	local new
	new=$(mktemp -d "$out/image-XXXXXX")
	go -C "$root/deploy/image" run . --image=registry.example.com/liveconfig:0.1.0 --platforms="linux/$(go env GOARCH)" --out="$new" >/dev/null
	mv "$new/docker.tar" "$out/image.tar"
	rm -r "$new"
}

mkdir -p "$out"
stage "the programs are built" programs
stage "the driver's image is built" image
exec "$root/test/exec.sh" "$out/sandbox" --repo="$root" --plugin="$root/bin" --box="$out/box" --image="$out/image.tar" -- "$@"

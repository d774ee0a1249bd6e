#!/usr/bin/env bash
# Makes sure that this machine has what building and testing need: Go, git, make, and a C compiler with its library's
# headers for Go's race detector. More programs and libraries can be named as arguments, by their Debian packages.
#
# As root it installs what is missing; as another user it says what to type. When nothing is missing it does nothing.
set -euo pipefail

go_minor=26

have_go() {
	local version
	version=$(go env GOVERSION 2>/dev/null) || return 1
	[[ $version =~ ^go1\.([0-9]+) ]] && ((BASH_REMATCH[1] >= go_minor))
}

# have PROGRAM-OR-PACKAGE
have() {
	case $1 in
	libseccomp-dev) pkg-config --exists libseccomp ;;
	qemu-system-x86) [[ -n $(type -P qemu-system-x86_64) ]] ;;
	qemu-system-arm) [[ -n $(type -P qemu-system-aarch64) ]] ;;
	inotify-tools) [[ -n $(type -P inotifywait) ]] ;;
	python3-watchdog) /usr/bin/python3 -c 'import watchdog' ;;
	node-chokidar) [[ -x /usr/bin/node && -d /usr/share/nodejs/chokidar ]] ;;
	python3-pymdownx) /usr/bin/python3 -c 'import pymdownx' ;;
	mkdocs-material) [[ -d /usr/share/mkdocs/themes/material ]] ;;
	default-jdk-headless) [[ -n $(type -P javac) ]] ;;
	*) [[ -n $(type -P "$1") ]] ;;
	esac
}

have_headers() { echo '#include <pthread.h>' | gcc -fsyntax-only -x c - 2>/dev/null; }

if ! have_go; then
	echo "Go 1.$go_minor or newer is needed; this machine has: $(go version 2>/dev/null || echo 'no Go')." >&2
	echo "Install it from https://go.dev/dl and put it first in PATH." >&2
	exit 1
fi

missing=()
for program in git make gcc "$@"; do
	have "$program" 2>/dev/null || missing+=("$program")
done
have_headers || missing+=(libc6-dev)
((${#missing[@]})) || exit 0

if ((EUID != 0)) || [[ -z $(type -P apt-get) ]]; then
	echo "Missing on this machine: ${missing[*]}. On Debian and Ubuntu, type:" >&2
	echo "  sudo apt-get update && sudo apt-get install --yes ${missing[*]}" >&2
	exit 1
fi
echo "installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install --yes --no-install-recommends "${missing[@]}" >/dev/null

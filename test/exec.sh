#!/usr/bin/env bash
# Starts a program for `go test -exec` and `go run -exec`: as root if it is one that needs root, and else as this user.
#
# A kubelet needs root. Root gets a separate build cache, so that this user's keeps its owner, and may read this
# user's checkout.
set -euo pipefail

case $1 in
*/bench | */e2e.test | */realnode.test | */sandbox | */sandbox.test) ;;
*) exec "$@" ;;
esac
((EUID != 0)) || exec "$@"

if ! sudo --non-interactive true 2>/dev/null; then
	echo "A real node needs root, and sudo asks for a password or is missing. As root, with this PATH, run make again." >&2
	exit 1
fi
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
exec sudo --non-interactive --preserve-env env "PATH=$PATH" "GOCACHE=$root/bin/test/root-cache" \
	GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory "GIT_CONFIG_VALUE_0=$root" "$@"

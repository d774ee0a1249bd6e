#!/usr/bin/env bash
# Builds the driver and the demo, and runs it. Both are built with the same flags, so that they share what they have in
# common. It needs no root where user namespaces are allowed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

export CGO_ENABLED=0
flags=(-trimpath -ldflags='-s -w')

mkdir -p bin/test
test/go-build.sh "the driver" . "${flags[@]}" -o bin/ ./cmd/liveconfig-driver
test/go-build.sh "the demo" test "${flags[@]}" -o ../bin/test/ ./demo
exec bin/test/demo

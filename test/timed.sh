#!/usr/bin/env bash
# Runs a command, says how long it took, and keeps that for the end of the tests' output.
#
#   test/timed.sh NAME COMMAND...
set -euo pipefail

name=$1
shift
stages=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)/bin/test/stages
mkdir -p "$(dirname "$stages")"
status=0
"$@" || status=$?
took=$(printf '%s: %dm%02ds' "$name" $((SECONDS / 60)) $((SECONDS % 60)))
echo "$took"
echo "  $took" >>"$stages"
exit "$status"

#!/usr/bin/env bash
# Builds the site of the pages into bin/site, with mkdocs. `make site` installs mkdocs first.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

rm -rf bin/site bin/site-pages
go run ./docs/site "$PWD" bin/site-pages
mkdocs build --quiet --config-file docs/site/mkdocs.yml

#!/usr/bin/env bash
# Looks for known vulnerabilities in what the code of Go modules calls.
#
#   test/tools/vulncheck.sh MODULE...    checks modules, each a folder, with their tests
#   test/tools/vulncheck.sh --self-test  checks that this check can fail
#
# The vulnerabilities come from the database at VULNDB, which is https://vuln.go.dev unless it is set. A mirror can be a
# file: URL. It ends with 0 when nothing vulnerable is called, with 3 when something is, and with 1 when it could not
# say.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

govulncheck=$PWD/bin/tools/govulncheck
# The real database changes every week. An older one, or none, would let everything pass.
max_age_days=60

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# require_fresh REPORT fails unless the report's database is known to have changed lately. govulncheck takes a folder
# without an index for a database without entries, whose last change is in the year 1.
require_fresh() {
	local modified
	modified=$(sed -nE 's/.*"db_last_modified": "([^"]+)".*/\1/p' "$1")
	if [[ -z $modified ]] || (($(date +%s) - $(date -d "$modified" +%s) > max_age_days * 86400)); then
		echo "the vulnerability database last changed at ${modified:-an unknown time}: too old to trust" >&2
		return 1
	fi
	echo "  the database last changed at $modified"
}

# scan MODULE DATABASE checks one module. Its callers take its status, so bash ignores set -e in it: each step says what
# follows when it fails.
scan() {
	local report=$work/report.json
	if ! "$govulncheck" -C "$1" -test -format json -db "$2" ./... >"$report"; then
		echo "$1 was not checked for vulnerabilities; the reason is above. The database is $2." >&2
		return 1
	fi
	require_fresh "$report" || return 1
	# Only the text form says by its status that something vulnerable is called.
	local status=0
	"$govulncheck" -mode convert <"$report" || status=$?
	((status == 0 || status == 3)) || return 1
	return "$status"
}

# write_database FOLDER MODIFIED writes a database of one entry, in the layout of https://go.dev/security/vuln/database.
write_database() {
	local id=GO-2021-0113
	mkdir -p "$1/index" "$1/ID"
	echo "{\"modified\":\"$2\"}" >"$1/index/db.json"
	echo "[{\"path\":\"golang.org/x/text\",\"vulns\":[{\"id\":\"$id\",\"modified\":\"$2\",\"fixed\":\"0.3.7\"}]}]" \
		>"$1/index/modules.json"
	cat >"$1/ID/$id.json" <<-END
		{"schema_version":"1.3.1","id":"$id","modified":"$2","published":"2021-10-06T00:00:00Z",
		 "database_specific":{"url":"https://pkg.go.dev/vuln/$id"},
		 "summary":"Parse can panic on a malformed language tag","details":"Parse can panic on a malformed language tag.",
		 "affected":[{"package":{"name":"golang.org/x/text","ecosystem":"Go"},
		   "ranges":[{"type":"SEMVER","events":[{"introduced":"0"},{"fixed":"0.3.7"}]}],
		   "ecosystem_specific":{"imports":[{"path":"golang.org/x/text/language","symbols":["Parse"]}]}}]}
	END
}

# write_module FOLDER VERSION STATEMENT writes a program that runs one statement with a version of golang.org/x/text.
write_module() {
	mkdir -p "$1"
	printf 'module example.com/scratch\n\ngo 1.26.0\n\nrequire golang.org/x/text %s\n' "$2" >"$1/go.mod"
	printf 'package main\n\nimport "golang.org/x/text/language"\n\nfunc main() { %s }\n' "$3" >"$1/main.go"
	go -C "$1" mod tidy
}

# expect STATUS SENTENCE MODULE DATABASE fails when a scan ends with another status.
expect() {
	local status=0
	scan "$3" "$4" >"$work/out" 2>&1 || status=$?
	if ((status != $1)); then
		cat "$work/out" >&2
		echo "self-test: $2: got status $status, want $1" >&2
		return 1
	fi
	echo "  ok: $2"
}

self_test() {
	local call='_, _ = language.Parse("en")'
	echo "testing the check for vulnerabilities"
	write_module "$work/called" v0.3.5 "$call"
	write_module "$work/imported" v0.3.5 '_ = language.English'
	write_module "$work/fixed" v0.3.7 "$call"
	write_database "$work/fresh" "$(date -u +%FT%TZ)"
	write_database "$work/old" 2021-10-06T00:00:00Z
	mkdir "$work/empty"
	expect 3 "a vulnerable function that is called is found" "$work/called" "file://$work/fresh"
	grep -q GO-2021-0113 "$work/out" || { echo "self-test: the finding is not named" >&2 && return 1; }
	expect 0 "one that is not called passes" "$work/imported" "file://$work/fresh"
	expect 0 "a fixed version passes" "$work/fixed" "file://$work/fresh"
	expect 1 "a missing database is an error" "$work/fixed" "file://$work/missing"
	expect 1 "an empty database is an error" "$work/fixed" "file://$work/empty"
	expect 1 "an old database is an error" "$work/fixed" "file://$work/old"
}

(($#)) || { echo "name the modules to check, or --self-test" >&2 && exit 2; }
if [[ $1 == --self-test ]]; then
	self_test
	exit
fi
worst=0
for module; do
	echo "looking for known vulnerabilities that $module calls"
	SECONDS=0 status=0
	scan "$module" "${VULNDB:-https://vuln.go.dev}" || status=$?
	echo "  took ${SECONDS}s"
	# What was found must not hide that another module was not checked.
	((status == 0 || worst == 1)) || worst=$status
done
exit "$worst"

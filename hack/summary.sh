#!/usr/bin/env bash
# Counts the test events that go test left in the folder $1 (one JSON file a step): skipped tests by name, and last
# one line for all. Exits 1 where a test failed or none ran.
set -euo pipefail

shopt -s nullglob
files=("$1"/*.json)
((${#files[@]})) || { echo "no test ran"; exit 1; }

# count ACTION: events of tests, not of packages.
count() { cat "${files[@]}" | grep '"Action":"'"$1"'"' | grep -c '"Test":' || true; }

cat "${files[@]}" | sed -n 's/.*"Action":"skip","Package":"[^"]*weir\/\([^"]*\)","Test":"\([^"]*\)".*/skipped: \1 \2/p' | sort -u
passed=$(count pass) failed=$(count fail) skipped=$(count skip)
printf '%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
((failed == 0 && passed > 0))

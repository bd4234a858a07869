#!/usr/bin/env bash
# Runs every static check and prints the findings of all of them; exits 1 where there was one.
# shellcheck disable=SC2317 # the functions are called through check
set -uo pipefail

failed=0
# check NAME COMMAND... runs a check that exits non-zero on a finding.
check() {
	printf 'lint: %s\n' "$1"
	"${@:2}" || failed=1
}

# none_found COMMAND... turns a search into a check: what it prints is a finding.
none_found() {
	local found
	found=$("$@")
	if [[ $found ]]; then
		printf '%s\n' "$found"
		return 1
	fi
}

sources() { git ls-files -co --exclude-standard -z -- "$@"; }
unformatted() { sources '*.go' | xargs -0r gofmt -l; }
# The guest of the virtual machine has busybox's shell, which is near to dash.
shell_scripts() {
	sources '*.sh' .ci/run ':!test/lab/vm' | xargs -0r shellcheck -S warning &&
		sources 'test/lab/vm/*.sh' | xargs -0r shellcheck -S warning -s dash
}
cgo_elsewhere() {
	go list -f '{{if .CgoFiles}}{{.ImportPath}}: only optimizer/highs may use cgo, so that all else stays static{{end}}' ./... |
		grep -v '/optimizer/highs:'
}
# Addresses of package registries and paths of one machine don't belong into the repository.
foreign_places() {
	git grep -nIE '(^|[^a-z0-9.])(deb|ftp|mirrors?|proxy|registry|snapshot|security)\.[a-z0-9.-]+\.(org|com|net|io|dev)|/work/[a-z]' \
		-- ':!go.sum' ':!*LICENSE*'
}

check gofmt none_found unformatted
check 'go vet' go vet ./...
check staticcheck go tool staticcheck ./...
check 'import rules' go tool depguard ./...
check 'cgo in one place' none_found cgo_elsewhere
check 'no registry addresses, no paths of one machine' none_found foreign_places
check shellcheck shell_scripts
exit "$failed"

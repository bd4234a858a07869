#!/usr/bin/env bash
# Prints the packages of pattern $2 of one kind ($1). cluster: their tests run the control plane of test/cluster; kernel:
# they import internal/testenv to name what they need of the machine; any: all others.
set -euo pipefail

go list -f '{{.ImportPath}} {{join .Imports " "}} {{join .TestImports " "}} {{join .XTestImports " "}}' "$2" |
	awk -v want="$1" '{
		kind = / [^ ]*internal\/testenv( |$)/ ? "kernel" : "any"
		if (/ [^ ]*weir\/test\/cluster( |$)/ || $1 ~ /weir\/test\/cluster$/) kind = "cluster"
	} kind == want {print $1}'

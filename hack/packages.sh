#!/usr/bin/env bash
# Prints the packages of pattern $2 whose tests need the machine's kernel ($1 = kernel: they import internal/testenv to
# name what they need of it), or the others ($1 = any).
set -euo pipefail

go list -f '{{.ImportPath}} {{join .TestImports " "}} {{join .XTestImports " "}}' "$2" |
	awk -v want="$1" '{kind = / [^ ]*internal\/testenv( |$)/ ? "kernel" : "any"} kind == want {print $1}'

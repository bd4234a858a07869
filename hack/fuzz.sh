#!/usr/bin/env bash
# Runs every fuzz target of the module, one after another, each for $1: inputs (40000x where absent) or a Go duration.
# A number of inputs, for where a duration ends while an input is tried, go test at times fails with "context deadline
# exceeded" though no input did.
set -euo pipefail

budget=${1:-40000x}
targets=()
while IFS=: read -r file name; do
	targets+=("./$(dirname "$file") $name")
done < <(git ls-files -co --exclude-standard '*_test.go' | xargs -r grep -oHE '^func Fuzz[A-Za-z0-9_]*' | sed 's/func //')

for target in "${targets[@]}"; do
	read -r package name <<<"$target"
	printf 'fuzz: %s %s for %s\n' "$package" "$name" "$budget"
	# Shrinking each input that covers something new takes a minute by default.
	go test -run='^$' -fuzz="^$name\$" -fuzztime="$budget" -fuzzminimizetime=10x "$package" | sed "/^fuzz: elapsed/d"
done
printf 'fuzz: %d targets\n' "${#targets[@]}"

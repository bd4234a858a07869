// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"encoding/json"
	"os"
	"testing"
)

// Record puts a benchmark's results, by name, into the JSON file that WEIR_BENCH_OUT
// names, beside what other benchmarks have put there. Without it nothing is kept.
func Record(b *testing.B, name string, results any) {
	b.Helper()
	path := os.Getenv("WEIR_BENCH_OUT")
	if path == "" {
		return
	}
	all := map[string]any{}
	if data, err := os.ReadFile(path); err == nil {
		if err := json.Unmarshal(data, &all); err != nil {
			b.Fatalf("%s: %v", path, err)
		}
	}
	all[name] = results
	data, err := json.MarshalIndent(all, "", "  ")
	if err == nil {
		err = os.WriteFile(path, append(data, '\n'), 0o644)
	}
	if err != nil {
		b.Fatal(err)
	}
}

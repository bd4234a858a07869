// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestSolveMigrationGolden(t *testing.T) {
	for name, file := range map[string]string{
		"example":  snapshots + "/example.json", // the contract's own: its only target is no node
		"edge":     snapshots + "/edge.json",    // no consumption of nodes is known
		"lopsided": "testdata/lopsided.json",    // one node crowded, one out, a pull that takes too long
	} {
		t.Run(name, func(t *testing.T) {
			got, err := solve(t, "", "solve", "migration", "-f", file)
			if err != nil {
				t.Fatal(err)
			}
			golden := filepath.Join("testdata", name+".migration.golden")
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func TestSolveMigrationRefusesAShareAboveOne(t *testing.T) {
	_, err := solve(t, `{"version": 1, "migration": {"maxTimeShare": 1.5}}`, "solve", "migration", "-f", "-")
	const want = "-: snapshot: migration.maxTimeShare: 1.5: want 0 to 1"
	if err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSolveScalingGolden(t *testing.T) {
	for name, file := range map[string]string{
		"example": snapshots + "/example.json", // nothing is scaled but one service: the contract's own figures
		"edge":    snapshots + "/edge.json",    // nothing is scaled
		"crowded": "testdata/crowded.json",     // shared workloads, a minimum that fits nowhere, a maximum, a full cluster
	} {
		t.Run(name, func(t *testing.T) {
			got, err := solve(t, "", "solve", "scaling", "-f", file)
			if err != nil {
				t.Fatal(err)
			}
			golden := filepath.Join("testdata", name+".scaling.golden")
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

func TestSolveScalingWithoutAnAnswer(t *testing.T) {
	out, err := solve(t, `{"version": 1, "services": [
		{"name": "a:http", "workload": "a", "slaTasksPerPod": 1, "minReplicas": 5, "podRequest": {"cpu": 1}},
		{"name": "a:admin", "workload": "a", "slaTasksPerPod": 1, "maxReplicas": 3, "podRequest": {"cpu": 1}}]}`,
		"solve", "scaling", "-f", "-")
	const want = "scaling: workload a: minReplicas 5 is above maxReplicas 3 of a:admin: infeasible"
	if err == nil || err.Error() != want || out != "" {
		t.Errorf("printed %q, error %v, want %s", out, err, want)
	}
	_, err = solve(t, `{"version": 1, "services": [{"name": "a", "slaTasksPerPod": 1}]}`, "solve", "scaling", "-f", "-")
	if err == nil || !strings.Contains(err.Error(), "services[0].podRequest") {
		t.Errorf("error %v", err)
	}
}

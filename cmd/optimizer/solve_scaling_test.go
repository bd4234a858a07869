// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
)

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

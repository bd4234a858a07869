// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"testing"
	"time"
)

func TestDeploymentRuns(t *testing.T) {
	c := Start(t, Options{Nodes: 5})
	if err := c.Create(t.Context(), Workload{Namespace: "shop", Name: "web", Replicas: 10}); err != nil {
		t.Fatal(err)
	}
	if err := c.WaitReady(t.Context(), "shop", "web", 30*time.Second); err != nil {
		t.Fatal(err)
	}
}

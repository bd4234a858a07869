// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"io"
	"time"
)

// Scenario is a load of equal workloads, named svc-1 and so on.
type Scenario struct {
	Namespace string
	// Services and the pods of each.
	Services, PodsPerService int
	// Change alters workload i, from 1, before it is created; nil changes
	// nothing.
	Change func(i int, w *Workload)
}

// ServiceName is the name of workload i of a Scenario, from 1.
func ServiceName(i int) string { return fmt.Sprint("svc-", i) }

// fillLimit is how long the pods of a scenario may take to run.
const fillLimit = 15 * time.Minute

// Fill creates the workloads and waits until all their pods are ready endpoints.
// It tells progress to out every 5 s.
func (c *Cluster) Fill(ctx context.Context, s Scenario, out io.Writer) error {
	if err := c.Namespace(ctx, s.Namespace); err != nil {
		return err
	}
	err := each(ctx, s.Services, func(ctx context.Context, i int) error {
		w := Workload{Namespace: s.Namespace, Name: ServiceName(i + 1), Replicas: int32(s.PodsPerService)}
		if s.Change != nil {
			s.Change(i+1, &w)
		}
		return c.Create(ctx, w)
	})
	if err != nil {
		return err
	}
	return c.awaitEndpoints(ctx, s, out)
}

// awaitEndpoints looks once a second: with thousands of endpoints the look itself
// is a load.
func (c *Cluster) awaitEndpoints(ctx context.Context, s Scenario, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, fillLimit)
	defer cancel()
	want := s.Services * s.PodsPerService
	for second := 1; ; second++ {
		ready, err := c.endpoints(ctx, s.Namespace, "")
		if err != nil {
			return err
		}
		if ready >= want {
			return nil
		}
		if second%5 == 0 {
			fmt.Fprintf(out, "cluster: %d of %d pods are ready endpoints\n", ready, want)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("fill the cluster: %d of %d pods are ready endpoints: %w", ready, want, ctx.Err())
		case <-time.After(time.Second):
		}
	}
}

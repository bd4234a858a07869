// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// parallel bounds the requests in flight of one creation.
const parallel = 32

// AddNodes creates the nodes from number first to last.
func (c *Cluster) AddNodes(ctx context.Context, first, last int) error {
	return each(ctx, last-first+1, func(ctx context.Context, i int) error {
		n := node(first+i, cmp.Or(c.options.Zones, 3))
		if c.options.Node != nil {
			c.options.Node(first+i, n)
		}
		if _, err := c.Client.CoreV1().Nodes().Create(ctx, n, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create node %s: %w", n.Name, err)
		}
		return nil
	})
}

// NodeName is the name of node i, from 1.
func NodeName(i int) string { return fmt.Sprint("edge-", i) }

// node returns node i, with an address in 10.64.0.0/10 and a /24 of pods in
// 10.128.0.0/9. kwok makes it ready.
func node(i, zones int) *corev1.Node {
	room := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi"), corev1.ResourcePods: resource.MustParse("110"),
	}
	name, cidr := NodeName(i), fmt.Sprintf("10.%d.%d.0/24", 128+i>>8&0x7f, i&0xff)
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name,
			Labels: map[string]string{
				corev1.LabelHostname: name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64",
				corev1.LabelTopologyZone: fmt.Sprint("zone-", (i-1)%zones+1),
			},
			Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"},
		},
		Spec: corev1.NodeSpec{PodCIDR: cidr, PodCIDRs: []string{cidr}},
		Status: corev1.NodeStatus{
			Capacity: room, Allocatable: room.DeepCopy(),
			Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("10.64.%d.%d", i>>8, i&0xff)},
				{Type: corev1.NodeHostName, Address: name},
			},
		},
	}
}

// WaitNodes waits until n nodes are ready and can be scheduled to.
func (c *Cluster) WaitNodes(ctx context.Context, n int) error {
	if n == 0 {
		return nil
	}
	return Wait(ctx, time.Minute, func(ctx context.Context) error {
		nodes, err := c.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			return err
		}
		ready := 0
		for i := range nodes.Items {
			if len(nodes.Items[i].Spec.Taints) == 0 && isReady(&nodes.Items[i]) {
				ready++
			}
		}
		if ready < n {
			return fmt.Errorf("%d of %d nodes are ready", ready, n)
		}
		return nil
	})
}

func isReady(n *corev1.Node) bool {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// Wait calls check every 100 ms until it returns nil, and after limit returns its
// last error.
func Wait(ctx context.Context, limit time.Duration, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var last error
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		if last == nil || !errors.Is(err, context.DeadlineExceeded) {
			last = err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not within %s: %w", limit, last)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// each calls do for 0 to n−1, some at a time.
func each(ctx context.Context, n int, do func(context.Context, int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for i := range n {
		group.Go(func() error { return do(ctx, i) })
	}
	return group.Wait()
}

// together runs the jobs at the same time.
func together(ctx context.Context, jobs ...func(context.Context) error) error {
	return each(ctx, len(jobs), func(ctx context.Context, i int) error { return jobs[i](ctx) })
}

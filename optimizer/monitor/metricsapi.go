// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
	metrics "k8s.io/metrics/pkg/client/clientset/versioned/typed/metrics/v1beta1"
)

// MetricsAPI reads usage from metrics.k8s.io, as a metrics-server fills it: cpu
// and memory, over windows of 15 s and more.
type MetricsAPI struct {
	client         metrics.MetricsV1beta1Interface
	timeout, stale time.Duration
}

// NewMetricsAPI prepares a client of the API server of config. A reading ends
// after timeout; values of a window that ended before stale are not taken.
func NewMetricsAPI(config *rest.Config, timeout, stale time.Duration) (*MetricsAPI, error) {
	client, err := metrics.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("metrics.k8s.io: %w", err)
	}
	return &MetricsAPI{client: client, timeout: timeout, stale: stale}, nil
}

// Read lists the usage of all nodes and pods. What one list gives is returned
// beside the error of the other.
func (m *MetricsAPI) Read(ctx context.Context) (*Usage, error) {
	ctx, cancel := context.WithTimeout(ctx, m.timeout)
	defer cancel()
	u := newUsage()
	u.At = time.Now()
	// Resource version 0: what the server has at hand is new enough.
	nodes, nodesErr := m.client.NodeMetricses().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if nodesErr != nil {
		nodesErr = fmt.Errorf("metrics.k8s.io: list nodes: %w", nodesErr)
	} else {
		for i := range nodes.Items {
			n := &nodes.Items[i]
			m.enter(u, u.Nodes, n.Name, n.Timestamp, n.Usage)
		}
	}
	pods, podsErr := m.client.PodMetricses(metav1.NamespaceAll).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if podsErr != nil {
		podsErr = fmt.Errorf("metrics.k8s.io: list pods: %w", podsErr)
	} else {
		for i := range pods.Items {
			p := &pods.Items[i]
			m.enter(u, u.Pods, p.Namespace+"/"+p.Name, p.Timestamp, sum(p.Containers))
		}
	}
	return u, errors.Join(nodesErr, podsErr)
}

func (m *MetricsAPI) enter(u *Usage, objects map[string]map[string]float64, name string, at metav1.Time, used corev1.ResourceList) {
	if u.At.Sub(at.Time) > m.stale {
		u.Dropped[DroppedStale]++
		return
	}
	for resource, q := range used {
		u.enter(objects, name, string(resource), q.AsApproximateFloat64())
	}
}

// sum adds up what a pod's containers use.
func sum(containers []metricsv1beta1.ContainerMetrics) corev1.ResourceList {
	total := corev1.ResourceList{}
	for _, c := range containers {
		for resource, q := range c.Usage {
			t := total[resource]
			t.Add(q)
			total[resource] = t
		}
	}
	return total
}

// SPDX-License-Identifier: Apache-2.0

package discovery

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/edgeweir/weir/internal/cluster"
	"github.com/edgeweir/weir/internal/kube"
)

// Options say what a Source does beside watching.
type Options struct {
	// Cluster is the cluster's name in Redis keys.
	Cluster string
	// Registerer takes the source's metrics.
	Registerer prometheus.Registerer
	Logger     *slog.Logger
	// Changed is called with each new cluster, on the source's goroutine; nil:
	// nobody asks.
	Changed func(*cluster.Cluster)
	// Speaks says whether this optimizer writes Events now: of several the
	// leader does. nil: always.
	Speaks func() bool
}

// Source gives the cluster of the moment. Losing the API server changes nothing
// of it; Degraded tells.
type Source struct {
	*kube.Source
	metrics *metrics
	herald  *herald
}

// How soon a change is seen. A rollout changes hundreds of objects within
// seconds; the optimizer looks once a period.
const (
	settle = 200 * time.Millisecond
	atMost = time.Second
)

// watches are the kinds that the optimizer reads. Weir does without the optional
// ones: it then knows less of what may be moved and scaled.
var watches = []kube.Watch{
	{Kind: kube.Nodes},
	{Kind: kube.Pods},
	{Kind: kube.Services, Labels: kube.ManagedLabel},
	{Kind: kube.Slices, Labels: kube.ManagedLabel},
	{Kind: kube.ReplicaSets, Optional: true},
	{Kind: kube.Deployments, Optional: true},
	{Kind: kube.StatefulSets, Optional: true},
	{Kind: kube.Budgets, Optional: true},
	{Kind: kube.Autoscalers, Optional: true},
}

// New prepares a source; Run makes it work.
func New(config *rest.Config, options Options) (*Source, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connect to the API server: %w", err)
	}
	s := &Source{herald: newHerald(client, options)}
	s.Source, err = kube.NewSource(config, kube.SourceOptions{
		Watches: watches, Settings: kube.Settings{Cluster: options.Cluster}, Settle: settle, AtMost: atMost,
		Built: s.built, Changed: options.Changed,
	})
	if err != nil {
		return nil, err
	}
	s.metrics = newMetrics(options.Registerer, s.Staleness)
	return s, nil
}

func (s *Source) built(c *cluster.Cluster, of *kube.Objects, took time.Duration) {
	s.metrics.built(c.Problems, s.Counts(), took)
	s.herald.hear(c.Problems, of)
}

// Run keeps the cluster up to date and blocks until ctx ends.
func (s *Source) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.Source.Run(ctx) })
	group.Go(func() error { return s.herald.run(ctx) })
	return group.Wait()
}

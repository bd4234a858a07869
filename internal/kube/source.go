// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"

	"github.com/edgeweir/weir/internal/cluster"
)

// SourceOptions say what a Source watches and when it looks.
type SourceOptions struct {
	Watches  []Watch
	Settings Settings
	// Settle is how long the objects must be quiet before the cluster is built
	// again, AtMost for how long changes may put that off.
	Settle, AtMost time.Duration
	// Spread is the longest wait, by chance, before the first list.
	Spread time.Duration
	// Built is called with each new cluster, the objects that it was built of
	// and the time that it took, on the goroutine of Run and before the cluster
	// is seen. It may change the cluster.
	Built func(c *cluster.Cluster, of *Objects, took time.Duration)
	// Changed is called when the new cluster is in force; nil: nobody asks.
	Changed func(*cluster.Cluster)
}

// Source gives the cluster of the moment.
type Source struct {
	options SourceOptions
	feed    *Feed
	changed chan struct{} // of one place: something has changed since
	current atomic.Pointer[cluster.Cluster]
}

// NewSource prepares a source; Run makes it work.
func NewSource(config *rest.Config, options SourceOptions) (*Source, error) {
	s := &Source{options: options, changed: make(chan struct{}, 1)}
	feed, err := NewFeed(config, options.Watches, s.touch)
	if err != nil {
		return nil, err
	}
	s.feed = feed
	return s, nil
}

func (s *Source) touch() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// resettle is how often a source looks whether all has been listed, until it
// has.
const resettle = 100 * time.Millisecond

// Run keeps the cluster up to date and blocks until ctx ends. Nothing of the API
// server ends it.
func (s *Source) Run(ctx context.Context) error {
	fed := make(chan struct{})
	go func() {
		defer close(fed)
		s.feed.Run(ctx, s.options.Spread)
	}()
	defer func() { <-fed }()
	for {
		if !s.await(ctx) {
			return nil
		}
		s.build()
	}
}

func (s *Source) build() {
	began := time.Now()
	objects := s.feed.Objects()
	c := Build(objects, s.options.Settings)
	if s.options.Built != nil {
		s.options.Built(c, objects, time.Since(began))
	}
	s.current.Store(c)
	if s.options.Changed != nil {
		s.options.Changed(c)
	}
}

// await returns when the cluster is due to be built, and false when ctx ended.
func (s *Source) await(ctx context.Context) bool {
	if s.current.Load() == nil {
		return s.awaitSync(ctx)
	}
	select {
	case <-ctx.Done():
		return false
	case <-s.changed:
	}
	limit := time.NewTimer(s.options.AtMost)
	defer limit.Stop()
	for {
		quiet := time.NewTimer(s.options.Settle)
		select {
		case <-ctx.Done():
			return false
		case <-s.changed:
			quiet.Stop()
		case <-quiet.C:
			return true
		case <-limit.C:
			return true
		}
	}
}

// awaitSync returns when all has been listed once, and false when ctx ended.
func (s *Source) awaitSync(ctx context.Context) bool {
	for !s.feed.Synced() {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(resettle):
		}
	}
	return true
}

// Cluster returns the cluster as it is known, which must not be changed; nil
// before everything was listed once.
func (s *Source) Cluster() *cluster.Cluster { return s.current.Load() }

// Synced says whether there is a cluster.
func (s *Source) Synced() bool { return s.current.Load() != nil }

// Degraded says in one line each what is not known, or no longer.
func (s *Source) Degraded() []string { return s.feed.Degraded() }

// Staleness is for how long there has been no contact with the API server.
func (s *Source) Staleness() time.Duration { return s.feed.Staleness() }

// Counts returns how many objects of each kind are kept.
func (s *Source) Counts() map[Kind]int { return s.feed.Counts() }

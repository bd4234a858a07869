// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/edgeweir/weir/internal/admin"
	"github.com/edgeweir/weir/internal/store"
	"github.com/edgeweir/weir/internal/wire"
)

// Extender answers a scheduler's calls.
type Extender struct {
	config  Config
	logger  *slog.Logger
	store   *store.Store
	pods    pods
	metrics *metrics
	certs   *certs // nil: plain HTTP
	address atomic.Value

	book atomic.Pointer[book]
	desk *desk
	// ctx ends what runs behind the calls, background waits for it.
	ctx        context.Context
	background sync.WaitGroup
}

// pods is what the extender needs of the API server.
type pods interface {
	Nominate(ctx context.Context, pod podRef, node string) error
	Explain(ctx context.Context, pod podRef, reason, message string) error
	Bound(ctx context.Context, pod podRef) (node string, err error)
}

// Run runs the extender of config and blocks until ctx ends.
func Run(ctx context.Context, config Config, logger *slog.Logger) error {
	_, run, err := prepare(ctx, config, logger)
	if err != nil {
		return err
	}
	return run()
}

// prepare checks config and returns the extender with what runs it.
func prepare(ctx context.Context, config Config, logger *slog.Logger) (*Extender, func() error, error) {
	if err := config.Validate(); err != nil {
		return nil, nil, err
	}
	var c *certs
	var err error
	if config.Cert != "" {
		if c, err = newCerts(config.Cert, config.Key, config.ClientCA); err != nil {
			return nil, nil, err
		}
	}
	k, err := newKube(config.Kubeconfig, config.Version)
	if err != nil {
		return nil, nil, err
	}
	s, err := store.Open(config.Cluster, config.Redis)
	if err != nil {
		return nil, nil, err
	}
	registry := prometheus.NewRegistry()
	e := newExtender(ctx, config, logger, s, k, registry)
	e.certs = c
	return e, func() error {
		defer s.Close()
		return e.run(registry)
	}, nil
}

func newExtender(ctx context.Context, config Config, logger *slog.Logger, s *store.Store, p pods, registry *prometheus.Registry) *Extender {
	e := &Extender{config: config, logger: logger, store: s, pods: p, metrics: newMetrics(registry, config.Version), desk: newDesk(), ctx: ctx}
	e.book.Store(newBook(nil, time.Time{}))
	return e
}

// run blocks until the extender's context ends and all that it started has.
func (e *Extender) run(gatherer prometheus.Gatherer) error {
	group, ctx := errgroup.WithContext(e.ctx)
	e.ctx = ctx
	server := &admin.Server{
		Address: e.config.Admin, Gatherer: gatherer, Logger: e.logger, Profile: e.config.Profile,
		Live: func() error { return nil }, Ready: e.ready, Status: func() any { return e.status() },
	}
	group.Go(func() error { return server.Run(ctx) })
	group.Go(func() error { return e.serve(ctx) })
	group.Go(func() error { return e.keepBook(ctx) })
	group.Go(func() error { return e.letGoLate(ctx) })
	if e.certs != nil {
		group.Go(func() error { return e.keepCerts(ctx) })
	}
	err := group.Wait()
	e.background.Wait()
	return err
}

// spawn runs work behind the calls; it must end with its context.
func (e *Extender) spawn(work func(context.Context)) {
	e.background.Go(func() { work(e.ctx) })
}

// ready does not ask for Redis: without it pods are let through, and that is
// better than a scheduler that finds no one.
func (e *Extender) ready() error {
	if e.address.Load() == nil {
		return errors.New("not listening yet")
	}
	return nil
}

// Status is what the admin port shows of the extender.
type Status struct {
	Version string `json:"version"`
	// ReadAt is when the directives were last read.
	ReadAt     time.Time        `json:"readAt"`
	Directives []wire.Directive `json:"directives"`
	Pods       []PodStatus      `json:"pods"`
}

// PodStatus is one pod that has a slot.
type PodStatus struct {
	Pod       string `json:"pod"`
	Slot      string `json:"slot"`
	Target    string `json:"target"`
	State     string `json:"state"`
	Refusals  int    `json:"refusals"`
	Nominated int    `json:"nominated"`
}

func (e *Extender) status() Status {
	b := e.book.Load()
	s := Status{Version: e.config.Version, ReadAt: b.asked, Directives: []wire.Directive{}, Pods: []PodStatus{}}
	for _, d := range b.owners {
		s.Directives = append(s.Directives, d.Directive)
	}
	for _, p := range e.desk.list() {
		s.Pods = append(s.Pods, PodStatus{Pod: p.pod.String(), Slot: p.slot, Target: p.target, State: p.state, Refusals: p.refusals, Nominated: p.nominated})
	}
	return s
}

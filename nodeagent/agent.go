// SPDX-License-Identifier: Apache-2.0

package nodeagent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/edgeweir/weir/internal/admin"
	"github.com/edgeweir/weir/internal/cluster"
	"github.com/edgeweir/weir/internal/store"
	"github.com/edgeweir/weir/internal/wire"
	"github.com/edgeweir/weir/nodeagent/arrivals"
	"github.com/edgeweir/weir/nodeagent/host"
	"github.com/edgeweir/weir/nodeagent/ipvs"
	"github.com/edgeweir/weir/nodeagent/usage"
)

// Agent is the agent of one node.
type Agent struct {
	config   Config
	logger   *slog.Logger
	registry *prometheus.Registry
	metrics  *metrics
	clock    clock
	store    *store.Store
	boot     string

	counter *arrivals.Counter
	table   *ipvs.Table
	host    *host.Host
	meter   *usage.Meter

	clusters chan *cluster.Cluster // changes of the cluster file
	views    chan store.View       // what the optimizer says
	readings chan reading          // what there is to report
	interest atomic.Pointer[interest]
	status   atomic.Pointer[wire.AgentStatus]
	health   *health
}

// interest is what the node asks the optimizer about.
type interest struct {
	zone     string
	services []string
}

// Run starts the agent of config and blocks until ctx ends. On the way out it
// leaves the kernel's tables as they are: traffic goes on.
func Run(ctx context.Context, config Config, logger *slog.Logger) error {
	if err := config.Validate(); err != nil {
		return err
	}
	c, err := cluster.Load(config.ClusterFile)
	if err != nil {
		return err
	}
	a, err := open(config, c, logger.With("node", config.Node))
	if err != nil {
		return err
	}
	defer a.close()
	return a.run(ctx, c)
}

// open takes hold of everything that the agent works with; what the cluster
// file asks for is refused here where this node can't do it.
func open(config Config, c *cluster.Cluster, logger *slog.Logger) (*Agent, error) {
	a := &Agent{
		config: config, logger: logger, registry: prometheus.NewRegistry(), clock: newClock(config.Period, config.Node),
		clusters: make(chan *cluster.Cluster, 1), views: make(chan store.View, 1), readings: make(chan reading, 1),
		health: newHealth(config.Period),
	}
	a.metrics = newMetrics(a.registry, config)
	a.meter = usage.New(usage.Options{Devices: config.Uplinks})
	var err error
	if a.boot, err = bootID(); err != nil {
		return nil, err
	}
	if a.store, err = store.Open(c.Name, config.Redis); err != nil {
		return nil, err
	}
	if a.table, err = ipvs.Open(logger); err != nil {
		return nil, errors.Join(err, a.close())
	}
	a.host = host.New(logger)
	a.counter, err = arrivals.Open(arrivals.Options{
		Dir: config.BPFDir, Attach: config.Attach, Interfaces: config.Interfaces, Logger: logger,
	})
	if err != nil {
		return nil, errors.Join(err, a.close())
	}
	a.metrics.attached(a.counter.Attachment())
	return a, nil
}

func (a *Agent) close() error {
	var err error
	if a.counter != nil {
		err = a.counter.Close()
	}
	if a.table != nil {
		a.table.Close()
	}
	return errors.Join(err, a.store.Close())
}

// run starts the agent's goroutines; the first error ends them all.
func (a *Agent) run(ctx context.Context, c *cluster.Cluster) error {
	loop := newLoop(a)
	if err := loop.adopt(ctx, c); err != nil {
		return fmt.Errorf("%s: %w", a.config.ClusterFile, err)
	}
	group, ctx := errgroup.WithContext(ctx)
	server := &admin.Server{
		Address: a.config.Admin, Gatherer: a.registry, Logger: a.logger, Profile: a.config.Profile,
		Live: a.health.live, Ready: a.health.ready, Status: func() any { return a.status.Load() },
	}
	group.Go(func() error { return server.Run(ctx) })
	group.Go(func() error { return loop.run(ctx) })
	group.Go(func() error { return a.push(ctx) })
	group.Go(func() error { return a.watchViews(ctx) })
	group.Go(func() error {
		return cluster.Watch(ctx, a.config.ClusterFile, func(c *cluster.Cluster) { replace(a.clusters, c) }, a.refused)
	})
	return group.Wait()
}

// refused tells that the cluster file can't be used; what was stays.
func (a *Agent) refused(err error) {
	a.metrics.clusterErrors.Inc()
	a.logger.Error("cluster file refused, the last good one stays", "error", err)
}

// replace puts v into a channel of one place, instead of what waits there.
func replace[T any](c chan T, v T) {
	for {
		select {
		case c <- v:
			return
		default:
		}
		select {
		case <-c:
		default:
		}
	}
}

// health says whether the loop turns.
type health struct {
	limit   time.Duration
	turned  atomic.Int64 // when the loop last turned, as time.Since(start)
	start   time.Time
	applied atomic.Bool
}

// stuckPeriods is after how many periods without a turn the agent is not live.
const stuckPeriods = 4

func newHealth(period time.Duration) *health {
	return &health{limit: max(stuckPeriods*period, 30*time.Second), start: time.Now()}
}

func (h *health) turn() { h.turned.Store(int64(time.Since(h.start))) }

func (h *health) live() error {
	if idle := time.Since(h.start) - time.Duration(h.turned.Load()); idle > h.limit {
		return fmt.Errorf("the agent's loop has not turned for %s", idle.Round(time.Second))
	}
	return nil
}

func (h *health) ready() error {
	if !h.applied.Load() {
		return errors.New("no virtual server has been programmed yet")
	}
	return nil
}

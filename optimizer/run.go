// SPDX-License-Identifier: Apache-2.0

package optimizer

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
	"github.com/edgeweir/weir/optimizer/model"
	"github.com/edgeweir/weir/optimizer/monitor"
)

// collectShare is the part of a period that agents have to report the last one:
// they spread their reports over its first tenth.
const collectShare = 0.25

// solveShare is the part of a period that solving may take.
const solveShare = 0.5

// Optimizer runs the cycle.
type Optimizer struct {
	config  Config
	logger  *slog.Logger
	store   *store.Store
	metrics *metrics
	saver   saver

	cluster   atomic.Pointer[cluster.Cluster]
	ledger    *monitor.Ledger
	means     *monitor.Means
	estimator *monitor.Estimator
	published *published
	decision  *model.DispatchDecision // the last good one
	epoch     int64                   // 0: Redis has given none yet
	plan      atomic.Pointer[wire.Plan]
	turned    atomic.Int64 // unix nanoseconds of the last cycle's end
}

// Run runs the optimizer of config and blocks until ctx ends.
func Run(ctx context.Context, config Config, logger *slog.Logger) error {
	if err := config.Validate(); err != nil {
		return err
	}
	c, err := cluster.Load(config.ClusterFile)
	if err != nil {
		return err
	}
	s, err := store.Open(c.Name, config.Redis)
	if err != nil {
		return err
	}
	defer s.Close()
	registry := prometheus.NewRegistry()
	o := &Optimizer{
		config: config, logger: logger, store: s, metrics: newMetrics(registry, config), saver: saver{dir: config.SnapshotDir},
		ledger: monitor.NewLedger(config.Period), means: monitor.NewMeans(), estimator: monitor.NewEstimator(),
		published: newPublished(),
	}
	o.cluster.Store(c)
	o.turned.Store(time.Now().UnixNano())
	group, ctx := errgroup.WithContext(ctx)
	server := &admin.Server{
		Address: config.Admin, Gatherer: registry, Logger: logger, Profile: config.Profile,
		Live: o.live, Ready: o.ready, Status: func() any { return o.plan.Load() },
	}
	group.Go(func() error { return server.Run(ctx) })
	group.Go(func() error { return o.loop(ctx) })
	group.Go(func() error { return cluster.Watch(ctx, config.ClusterFile, o.adopt, o.refused) })
	return group.Wait()
}

// adopt takes a changed cluster file; the next cycle works with it. The name is
// part of every key, so it holds for the life of the process.
func (o *Optimizer) adopt(c *cluster.Cluster) {
	if was := o.cluster.Load().Name; c.Name != was {
		o.refused(fmt.Errorf("%s: name: %q: %q while the optimizer runs", o.config.ClusterFile, c.Name, was))
		return
	}
	o.cluster.Store(c)
}

func (o *Optimizer) refused(err error) {
	o.metrics.clusterErrors.Inc()
	o.logger.Error("cluster file refused, the last good one stays", "error", err)
}

// loop runs a cycle in each period, collectShare after its start.
func (o *Optimizer) loop(ctx context.Context) error {
	offset := time.Duration(collectShare * float64(o.config.Period))
	for {
		now := time.Now()
		into := time.Duration((now.UnixNano() - int64(offset)) % int64(o.config.Period))
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(o.config.Period - into):
		}
		if err := o.cycle(ctx, time.Now()); err != nil {
			return err
		}
		o.turned.Store(time.Now().UnixNano())
	}
}

// cycle does one period's work. Its error ends the optimizer; all that can heal
// is told and tried again in the next period.
func (o *Optimizer) cycle(ctx context.Context, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, o.config.Period)
	defer cancel()
	var degraded []string
	k, missing := o.collect(ctx, now)
	degraded = append(degraded, missing...)
	costs := k.costs()
	snapshot := k.snapshot(o.settings(), costs)
	if err := o.saver.save(snapshot, now); err != nil {
		degraded = append(degraded, err.Error())
	}
	decision, err := o.solve(ctx, snapshot)
	if err != nil {
		o.metrics.solveErrors.Inc()
		degraded = append(degraded, fmt.Sprintf("dispatch: %v: the last plan stays", err))
	} else {
		o.decision = decision
	}
	if o.decision == nil {
		o.tell(degraded, now, nil)
		return nil
	}
	plan := o.planOf(now, costs, degraded)
	if err := o.publish(ctx, plan, now); err != nil {
		if errors.Is(err, store.ErrFenced) {
			return fmt.Errorf("another optimizer of cluster %q has taken over: %w", o.cluster.Load().Name, err)
		}
		o.metrics.publishErrors.Inc()
		plan.Degraded = append(plan.Degraded, err.Error())
	}
	o.tell(plan.Degraded, now, plan)
	return nil
}

// tell shows and logs what came of a cycle.
func (o *Optimizer) tell(degraded []string, now time.Time, plan *wire.Plan) {
	o.metrics.degraded.Set(float64(len(degraded)))
	for _, line := range degraded {
		o.logger.Warn("degraded", "reason", line)
	}
	if plan == nil {
		return
	}
	o.plan.Store(plan)
	d := plan.Dispatch
	o.metrics.decided(d)
	o.logger.Info("dispatched", "period", plan.Period, "arrived", d.Arrived, "served", d.Served,
		"maxUtilisation", d.MaxUtilisation, "solveMillis", d.SolveMillis, "took", time.Since(now).Round(time.Millisecond))
}

// collect reads the agents' reports and learns from them. It returns what is
// missing in one line each.
func (o *Optimizer) collect(ctx context.Context, now time.Time) (*knowledge, []string) {
	c := o.cluster.Load()
	nodes, names := make([]string, len(c.Nodes)), map[string]bool{}
	for i, n := range c.Nodes {
		nodes[i], names[n.Name] = n.Name, true
	}
	o.ledger.Keep(names)
	var missing []string
	reading, cancel := context.WithTimeout(ctx, o.config.Period/4)
	defer cancel()
	reports, err := o.store.Arrivals(reading, nodes)
	if err != nil {
		o.metrics.readErrors.Inc()
		missing = append(missing, oneLine(err))
	}
	fresh := false
	for _, r := range reports {
		fresh = o.ledger.Take(r, now) || fresh
	}
	k := &knowledge{cluster: c, period: o.config.Period, demand: map[string]monitor.Demand{}, means: o.means, estimator: o.estimator}
	for _, n := range nodes {
		if d, ok := o.ledger.Demand(n, now); ok {
			k.demand[n] = d
		} else {
			missing = append(missing, fmt.Sprintf("node %s: its agent is silent", n))
		}
		o.metrics.received(n, o.ledger.Received(n))
	}
	if fresh {
		k.learn()
	}
	o.metrics.silent.Set(float64(len(nodes) - len(k.demand)))
	return k, missing
}

func (o *Optimizer) settings() model.DispatchSettings {
	s := model.NewSnapshot().Dispatch
	s.MaxUtilisation, s.Shortage = o.config.MaxUtilisation, model.Shortage(o.config.Shortage)
	s.Stages = []model.Stage{model.StageThroughput, model.StageBalance}
	if o.config.Locality {
		s.Stages = append(s.Stages, model.StageLocality)
	}
	return s
}

// solve solves dispatch within its part of the period; the wait ends then even
// where the solver's own limit does not hold.
func (o *Optimizer) solve(ctx context.Context, s *model.Snapshot) (*model.DispatchDecision, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(solveShare*float64(o.config.Period)))
	defer cancel()
	type outcome struct {
		decision *model.DispatchDecision
		err      error
	}
	done := make(chan outcome, 1)
	go func() {
		d, err := model.Dispatch(ctx, s)
		done <- outcome{d, err}
	}()
	select {
	case r := <-done:
		return r.decision, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// whyLines bounds the explanations that a plan carries.
const whyLines = 200

func (o *Optimizer) planOf(now time.Time, costs map[string]map[string]wire.Cost, degraded []string) *wire.Plan {
	d := o.decision
	return &wire.Plan{
		Version: wire.Version, Epoch: o.epoch, Period: now.UnixNano() / int64(o.config.Period), At: now.UTC(),
		Seconds: o.config.Period.Seconds(), Degraded: degraded,
		Dispatch: &wire.DispatchPlan{
			Status: d.Status, Arrived: d.Arrived, Served: d.Served, Bound: d.Bound, MaxUtilisation: d.MaxUtilisation,
			SolveMillis: d.SolveMillis, TaskCosts: costs, Why: d.Why[:min(whyLines, len(d.Why))],
		},
	}
}

// publish writes what agents don't have yet.
func (o *Optimizer) publish(ctx context.Context, plan *wire.Plan, now time.Time) error {
	if o.epoch == 0 {
		epoch, err := o.store.NextEpoch(ctx)
		if err != nil {
			return err
		}
		o.epoch = epoch
		o.logger.Info("leading", "epoch", epoch)
	}
	plan.Epoch = o.epoch
	life := time.Duration(o.config.StalePeriods) * o.config.Period
	due := o.published.due(rowsOf(o.decision, o.cluster.Load()), now, life)
	splits, ratios := due.messages(o.epoch, plan.Period, plan.At)
	err := o.store.PutDispatch(ctx, &store.Dispatch{
		Epoch: o.epoch, Period: plan.Period, Splits: splits, Ratios: ratios, Life: life, Plan: *plan,
	})
	if err != nil {
		return err
	}
	o.published.wrote(due, now)
	o.metrics.rows.Add(float64(len(splits) + len(ratios)))
	return nil
}

// live fails when no cycle has ended for a while.
func (o *Optimizer) live() error {
	const most = 6
	idle := time.Since(time.Unix(0, o.turned.Load()))
	if limit := max(most*o.config.Period, 30*time.Second); idle > limit {
		return fmt.Errorf("no cycle has ended for %s", idle.Round(time.Second))
	}
	return nil
}

func (o *Optimizer) ready() error {
	if o.plan.Load() == nil {
		return errors.New("no plan yet")
	}
	return nil
}

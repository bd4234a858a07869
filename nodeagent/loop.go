// SPDX-License-Identifier: Apache-2.0

package nodeagent

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"time"

	"github.com/edgeweir/weir/internal/cluster"
	"github.com/edgeweir/weir/internal/store"
	"github.com/edgeweir/weir/nodeagent/arrivals"
	"github.com/edgeweir/weir/nodeagent/ipvs"
)

// sentinelPeriod is how often the table is looked at for virtual servers that
// someone flushed: kube-proxy empties the whole table when it starts.
const sentinelPeriod = 250 * time.Millisecond

// applyShare is the part of a period that the loop waits for the optimizer
// before it reconciles with the ratios that it has.
const applyShare = 0.6

// expectMemory is the weight of the newest period in the arrivals that are
// expected of the next.
const expectMemory = 0.5

// loop owns the kernel's tables. Its methods run on one goroutine.
type loop struct {
	*Agent
	desired  *desired
	balances map[string]*balance
	drain    ipvs.Drain
	fresh    freshness

	totals   arrivals.Totals    // at the last tick
	applied  arrivals.Totals    // at the last apply
	expected map[string]float64 // tasks a period, by service
	taken    map[string]ratios  // parts of the last dump's connections, by service and pod
	filler   *filler

	ours    []netip.Addr // addresses of our device, as last seen
	checked hostCheck
}

func newLoop(a *Agent) *loop {
	return &loop{
		Agent: a, balances: map[string]*balance{}, expected: map[string]float64{}, taken: map[string]ratios{},
		drain: ipvs.Drain{Limit: a.config.DrainLimit}, fresh: freshness{since: time.Now()},
		filler: newFiller(a.counter.Attachment(), time.Now()),
	}
}

func (l *loop) run(ctx context.Context) error {
	tick := time.NewTimer(l.clock.wait(time.Now()))
	apply := time.NewTimer(l.config.Period)
	sentinel := time.NewTicker(sentinelPeriod)
	defer tick.Stop()
	defer apply.Stop()
	defer sentinel.Stop()
	wait := time.Duration(applyShare * float64(l.config.Period))
	for {
		l.health.turn()
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			l.count(ctx, time.Now())
			tick.Reset(l.clock.wait(time.Now()))
			apply.Reset(wait)
		case view := <-l.views:
			l.hear(view, time.Now())
			l.reconcile(ctx, time.Now())
			apply.Stop()
		case <-apply.C:
			l.reconcile(ctx, time.Now())
		case <-sentinel.C:
			l.watchTable(ctx)
		case c := <-l.clusters:
			if err := l.adopt(ctx, c); err != nil {
				l.refused(fmt.Errorf("%s: %w", l.config.ClusterFile, err))
			}
		}
	}
}

// adopt makes the kernel serve c. On an error of c what was stays in force.
func (l *loop) adopt(ctx context.Context, c *cluster.Cluster) error {
	d, err := newDesired(c, l.config.Node)
	if err != nil {
		return err
	}
	if err := d.conflict(l.host); err != nil {
		return err
	}
	if l.ours, err = l.host.Addresses(); err != nil {
		return err
	}
	if err := l.counter.Track(d.tracked(), d.origins); err != nil {
		return err
	}
	l.desired = d
	l.interest.Store(&interest{zone: d.node.Zone, services: d.names()})
	l.forget()
	l.reconcile(ctx, time.Now())
	return nil
}

// forget drops what is remembered of services and virtual servers that are gone.
func (l *loop) forget() {
	known := map[string]bool{}
	for _, s := range l.desired.services {
		known[s.Name] = true
		keys := map[ipvs.Key]bool{}
		for _, v := range s.servers {
			keys[v.key] = true
		}
		maps.DeleteFunc(l.balance(s.Name).servers, func(k ipvs.Key, _ *serverState) bool { return !keys[k] })
	}
	maps.DeleteFunc(l.balances, func(name string, _ *balance) bool { return !known[name] })
	maps.DeleteFunc(l.expected, func(name string, _ float64) bool { return !known[name] })
	maps.DeleteFunc(l.taken, func(name string, _ ratios) bool { return !known[name] })
	l.metrics.forget(known)
}

func (l *loop) balance(name string) *balance {
	b, ok := l.balances[name]
	if !ok {
		b = newBalance()
		l.balances[name] = b
	}
	return b
}

// count reads the counters and hands them on to be reported.
func (l *loop) count(ctx context.Context, now time.Time) {
	totals, err := l.read(ctx)
	if err != nil {
		l.metrics.readErrors.Inc()
		l.logger.Error("counters not read, the next reading will hold what arrived", "error", err)
		return
	}
	if stats, err := l.counter.Stats(ctx); err == nil {
		l.metrics.stats.Store(&stats)
	}
	grown := arrivals.Delta(l.totals, totals)
	if l.totals.Epoch != "" {
		l.metrics.arrived(grown)
		tasks := grown.ByService()
		for _, s := range l.desired.services {
			l.expect(s.Name, float64(tasks[s.Name]))
		}
	}
	l.totals = totals
	replace(l.readings, reading{at: now, totals: totals, taken: maps.Clone(l.taken), pods: l.desired.pods})
}

func (l *loop) expect(service string, tasks float64) {
	if before, known := l.expected[service]; known {
		tasks = expectMemory*tasks + (1-expectMemory)*before
	}
	l.expected[service] = tasks
}

// read returns the counts, with what the hooks in use can't see added.
func (l *loop) read(ctx context.Context) (arrivals.Totals, error) {
	totals, err := l.counter.Read(ctx)
	if err != nil {
		return totals, err
	}
	return l.filler.fill(totals, l.seen()), nil
}

// seen returns IPVS's own counts of our services since the agent began.
func (l *loop) seen() map[string]uint64 {
	seen := map[string]uint64{}
	for name, b := range l.balances {
		for _, s := range b.servers {
			seen[name] += s.seen
		}
	}
	return seen
}

// hear takes a view of the optimizer's work; one that was heard before changes
// nothing.
func (l *loop) hear(view store.View, now time.Time) {
	if !l.fresh.hear(view.Pulse, now) {
		return
	}
	for _, s := range l.desired.services {
		if share, ok := view.Shares[s.Name]; ok && len(share.Pods) > 0 {
			l.balance(s.Name).hear(share)
		}
	}
}

// watchTable rebuilds the table at once where one of our virtual servers is gone.
func (l *loop) watchTable(ctx context.Context) {
	missing, err := l.table.Missing(ctx, l.desired.keys()...)
	if err != nil {
		l.metrics.netlinkErrors.Inc()
		l.logger.Error("the table can't be watched", "error", err)
		return
	}
	if len(missing) > 0 {
		l.metrics.rebuilds.Inc()
		l.logger.Warn("virtual servers are gone, building them again", "missing", len(missing), "first", missing[0].String())
		l.reconcile(ctx, time.Now())
	}
}

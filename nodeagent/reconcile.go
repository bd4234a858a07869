// SPDX-License-Identifier: Apache-2.0

package nodeagent

import (
	"context"
	"log/slog"
	"math"
	"slices"
	"time"

	"github.com/edgeweir/weir/nodeagent/arrivals"
	"github.com/edgeweir/weir/nodeagent/ipvs"
)

// hostCheck is when and for what addresses and rules of the node were last made
// right.
type hostCheck struct {
	desired *desired
	leaving []ipvs.Key
	good    bool
	periods int // since
}

// hostPeriods is how often addresses and rules are looked at where nothing of
// ours has changed: unlike the table, nobody else is known to touch them.
const hostPeriods = 5

// reconcile makes the kernel's tables what they should be: one dump, the
// differences written in one batch, then the node's addresses and rules.
func (l *loop) reconcile(ctx context.Context, now time.Time) {
	began := time.Now()
	have, err := l.table.Dump(ctx)
	if err != nil {
		l.metrics.netlinkErrors.Inc()
		l.logger.Error("the table stays as it is", "error", err)
		return
	}
	l.observe(have)
	want, owned := l.want(ctx, have, now), l.owner()
	gone := leaving(have, want, owned)
	due := l.hostDue(gone)
	if due {
		l.hostDone("rules", l.host.Prepare(ctx, l.desired.host(gone)))
	}
	ops, drain := ipvs.Plan(have, want, owned, now, l.drain)
	result, err := l.table.Apply(ctx, ops)
	if err != nil {
		l.metrics.netlinkErrors.Inc()
		l.logger.Error("the table was not written", "error", err)
		return
	}
	l.drain = drain
	for _, f := range result.Failed {
		l.metrics.netlinkErrors.Inc()
		l.logger.Error("a write of the table was refused", "error", f.Err)
	}
	if due {
		l.hostDone("addresses", l.host.Bind(ctx, l.desired.host(gone)))
		l.ours, err = l.host.Addresses()
		l.hostDone("addresses", err)
		l.hostDone("devices to count at", l.counter.Rescan())
	}
	l.health.applied.Store(len(result.Failed) == 0)
	l.metrics.reconciled(ops, time.Since(began))
	l.show(have, want, ops, now)
	l.logger.Log(ctx, levelOf(ops), "reconciled", "writes", result.Applied, "refused", len(result.Failed),
		"draining", drain.Draining(), "period", l.fresh.last.Period, "took", time.Since(began).Round(time.Microsecond))
}

func levelOf(ops []ipvs.Op) slog.Level {
	if len(ops) == 0 {
		return slog.LevelDebug
	}
	return slog.LevelInfo
}

// observe takes what a dump tells of our services.
func (l *loop) observe(have []ipvs.Service) {
	present := byKey(have)
	for _, s := range l.desired.services {
		b, got := l.balance(s.Name), map[string]float64{}
		for _, v := range s.servers {
			h, ok := present[v.key]
			if !ok {
				continue
			}
			b.inherit(v, h)
			for pod, n := range b.server(v.key).observe(v, h) {
				got[pod] += n
			}
		}
		if total := sumOf(got); total > 0 {
			l.taken[s.Name] = ratios(got).normalise()
		}
	}
}

// want returns the virtual servers as they should be.
func (l *loop) want(ctx context.Context, have []ipvs.Service, now time.Time) []ipvs.Service {
	present := byKey(have)
	past := l.fresh.past(now, l.config.Period, l.config.StalePeriods)
	arrived := l.arrived(ctx)
	var want []ipvs.Service
	for _, s := range l.desired.services {
		b := l.balance(s.Name)
		r := b.wanted(s, past)
		l.metrics.wanted(s.Name, r)
		parts := b.parts(s.servers)
		for i, v := range s.servers {
			inFlight := math.NaN()
			if h, ok := present[v.key]; ok {
				inFlight = ipvs.InFlight(h)
			}
			demand := ipvs.Demand{Expected: parts[i] * l.expected[s.Name], Arrived: parts[i] * arrived[s.Name]}
			want = append(want, b.server(v.key).program(s, v, l.config.Node, r, inFlight, demand))
		}
	}
	l.metrics.stale(past)
	return want
}

// parts returns the part of the service's tasks that comes to each of its
// virtual servers, by IPVS's counts; equal parts where it has none.
func (b *balance) parts(servers []server) []float64 {
	total := 0.0
	for _, v := range servers {
		total += float64(b.server(v.key).seen)
	}
	parts := make([]float64, len(servers))
	for i, v := range servers {
		if total > 0 {
			parts[i] = float64(b.server(v.key).seen) / total
		} else {
			parts[i] = 1 / float64(len(servers))
		}
	}
	return parts
}

// arrived returns the tasks of each service since the last reconcile.
func (l *loop) arrived(ctx context.Context) map[string]float64 {
	totals, err := l.read(ctx)
	if err != nil {
		l.metrics.readErrors.Inc()
		return nil
	}
	tasks := map[string]float64{}
	if l.applied.Epoch != "" {
		for name, n := range arrivals.Delta(l.applied, totals).ByService() {
			tasks[name] = float64(n)
		}
	}
	l.applied = totals
	return tasks
}

// owner says which virtual servers are ours: those at addresses of our device,
// and those that we are to make.
func (l *loop) owner() func(ipvs.Key) bool {
	wanted := l.desired.keys()
	return func(k ipvs.Key) bool { return slices.Contains(l.ours, k.Address) || slices.Contains(wanted, k) }
}

// hostDue says whether addresses and rules of the node have to be looked at.
func (l *loop) hostDue(leaving []ipvs.Key) bool {
	c := &l.checked
	c.periods++
	if c.good && c.desired == l.desired && slices.Equal(c.leaving, leaving) && c.periods < hostPeriods {
		return false
	}
	*c = hostCheck{desired: l.desired, leaving: leaving, good: true}
	return true
}

// hostDone tells a failure, after which the next period tries again.
func (l *loop) hostDone(what string, err error) {
	if err == nil {
		return
	}
	l.checked.good = false
	l.metrics.hostErrors.Inc()
	l.logger.Error(what+" of the node", "error", err)
}

// leaving returns our virtual servers that are not wanted but still there: their
// addresses stay until their connections have ended.
func leaving(have, want []ipvs.Service, owned func(ipvs.Key) bool) []ipvs.Key {
	wanted := byKey(want)
	var keys []ipvs.Key
	for _, h := range have {
		if _, ok := wanted[h.Key()]; !ok && owned(h.Key()) {
			keys = append(keys, h.Key())
		}
	}
	return keys
}

func byKey(services []ipvs.Service) map[ipvs.Key]ipvs.Service {
	m := make(map[ipvs.Key]ipvs.Service, len(services))
	for _, s := range services {
		m[s.Key()] = s
	}
	return m
}

func sumOf(values map[string]float64) (total float64) {
	for _, v := range values {
		total += v
	}
	return total
}

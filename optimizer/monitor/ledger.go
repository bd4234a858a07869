// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"time"

	"github.com/edgeweir/weir/internal/wire"
)

// Ledger keeps what the agents reported, so that each task counts once: it takes
// differences of totals, which a lost, late or repeated report can't falsify.
// It is not safe for concurrent use.
type Ledger struct {
	period time.Duration
	nodes  map[string]*account
}

// account is the ledger of one node.
type account struct {
	counters string
	end      time.Time // of the last report, by the node's clock
	heard    time.Time // when it came, by ours
	totals   map[string]uint64
	received map[string]uint64 // all tasks ever, by service
	rate     map[string]float64
	last     map[string]float64
	taken    map[string]map[string]float64
	usage    wire.Usage
}

// Demand is one node's arrivals in tasks per period.
type Demand struct {
	Rate, Last map[string]float64            // in the last period and the one before, by service
	Taken      map[string]map[string]float64 // of the last period, by service and pod
	Usage      wire.Usage
}

// silentPeriods is for how many periods the demand of a silent node is believed.
const silentPeriods = 3

// NewLedger returns an empty ledger for periods of the given length.
func NewLedger(period time.Duration) *Ledger {
	return &Ledger{period: period, nodes: map[string]*account{}}
}

// Take enters a report at the time now and says whether it is a new one.
func (l *Ledger) Take(report wire.Arrivals, now time.Time) bool {
	a, known := l.nodes[report.Node]
	if !known {
		a = &account{received: map[string]uint64{}}
		l.nodes[report.Node] = a
	}
	if known && a.counters == report.Counters && !report.End.After(a.end) && now.Sub(a.heard) < silentPeriods*l.period {
		return false
	}
	rate, taken := map[string]float64{}, map[string]map[string]float64{}
	totals := make(map[string]uint64, len(report.Services))
	span, whole := l.span(a, report, known)
	for name, s := range report.Services {
		grown := s.Total
		if a.counters == report.Counters && a.totals[name] <= s.Total {
			grown -= a.totals[name]
		}
		a.received[name] += grown
		totals[name] = s.Total
		tasks := float64(s.Tasks)
		if whole {
			tasks = float64(grown)
		}
		rate[name] = tasks * span
		taken[name] = scaled(s.Pods, s.Tasks, rate[name])
	}
	a.last, a.rate, a.taken, a.totals = a.rate, rate, taken, totals
	a.counters, a.end, a.heard, a.usage = report.Counters, report.End, now, report.Usage
	if a.last == nil {
		a.last = rate
	}
	return true
}

// span returns periods per interval that a report stands for, and whether that
// interval reaches back to the report before: then the growth of the totals is
// its tasks. Else (the first report, new counters, a clock that was set) the
// report's own interval and count are right.
func (l *Ledger) span(a *account, report wire.Arrivals, known bool) (periods float64, whole bool) {
	const longest = 20 // periods
	if known && a.counters == report.Counters {
		if since := report.End.Sub(a.end); since > l.period/4 && since < longest*l.period {
			return float64(l.period) / float64(since), true
		}
	}
	return float64(l.period) / float64(max(report.End.Sub(report.Start), l.period/4)), false
}

// scaled returns the tasks by pod, which were split of sum, as a split of rate.
func scaled(pods map[string]float64, sum uint64, rate float64) map[string]float64 {
	if sum == 0 || len(pods) == 0 {
		return nil
	}
	out := make(map[string]float64, len(pods))
	for pod, v := range pods {
		out[pod] = v / float64(sum) * rate
	}
	return out
}

// Demand returns what node reported, or false when it has been silent too long.
func (l *Ledger) Demand(node string, now time.Time) (Demand, bool) {
	a, ok := l.nodes[node]
	if !ok || now.Sub(a.heard) > silentPeriods*l.period {
		return Demand{}, false
	}
	return Demand{Rate: a.rate, Last: a.last, Taken: a.taken, Usage: a.usage}, true
}

// Received returns all tasks of node ever entered, by service.
func (l *Ledger) Received(node string) map[string]uint64 {
	if a, ok := l.nodes[node]; ok {
		return a.received
	}
	return nil
}

// Keep forgets the nodes that are not among names.
func (l *Ledger) Keep(names map[string]bool) {
	for n := range l.nodes {
		if !names[n] {
			delete(l.nodes, n)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/edgeweir/weir/internal/wire"
)

const period = 5 * time.Second

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func report(counters string, from, to time.Duration, tasks, total uint64) wire.Arrivals {
	return wire.Arrivals{Version: wire.Version, Node: "n", Counters: counters, Start: start.Add(from), End: start.Add(to),
		Services: map[string]wire.ServiceArrivals{"web": {Tasks: tasks, Total: total, Pods: map[string]float64{"a": float64(tasks)}}}}
}

func TestRatesArePerPeriod(t *testing.T) {
	l := NewLedger(period)
	steps := []struct {
		name     string
		report   wire.Arrivals
		now      time.Duration
		fresh    bool
		rate     float64
		received uint64
	}{
		{"the first report's own count", report("b/1", 0, period, 10, 1000), period, true, 10, 1000},
		{"the same again", report("b/1", 0, period, 10, 1000), period, false, 10, 1000},
		{"one period", report("b/1", period, 2*period, 20, 1020), 2 * period, true, 20, 1020},
		{"two periods in one report", report("b/1", 2*period, 4*period, 60, 1080), 4 * period, true, 30, 1080},
		{"a report was lost", report("b/1", 5*period, 6*period, 7, 1100), 6 * period, true, 10, 1100},
		{"the node booted", report("c/1", 0, 7*period, 5, 5), 7 * period, true, 5.0 / 7, 1105},
	}
	for _, s := range steps {
		if fresh := l.Take(s.report, start.Add(s.now)); fresh != s.fresh {
			t.Errorf("%s: fresh %v", s.name, fresh)
		}
		d, ok := l.Demand("n", start.Add(s.now))
		if !ok || math.Abs(d.Rate["web"]-s.rate) > 1e-9 {
			t.Errorf("%s: rate %v (heard: %v), want %v", s.name, d.Rate["web"], ok, s.rate)
		}
		if math.Abs(d.Taken["web"]["a"]-s.rate) > 1e-9 {
			t.Errorf("%s: pod a took %v of %v", s.name, d.Taken["web"]["a"], s.rate)
		}
		if got := l.Received("n")["web"]; got != s.received {
			t.Errorf("%s: received %d, want %d", s.name, got, s.received)
		}
	}
	if _, ok := l.Demand("n", start.Add(7*period+silentPeriods*period+1)); ok {
		t.Error("a silent node's demand does not age")
	}
	l.Keep(map[string]bool{})
	if l.Received("n") != nil {
		t.Error("a node that is gone is remembered")
	}
}

// Whatever reports are lost or repeated, every task that a later report covers
// has been received once.
func TestEveryTaskIsReceivedOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := NewLedger(period)
		var total, before, base, lastTotal uint64
		end, from := time.Duration(0), time.Duration(0)
		boot := 0
		for range rapid.IntRange(1, 40).Draw(t, "reports") {
			if rapid.IntRange(0, 9).Draw(t, "boots") == 0 {
				boot++
				before, total, base = before+lastTotal, 0, 0
				lastTotal = 0
			}
			total += rapid.Uint64Range(0, 100).Draw(t, "tasks")
			end += period
			r := report(fmt.Sprint(boot), from, end, total-base, total)
			for range rapid.IntRange(0, 2).Draw(t, "deliveries") { // 0: lost
				l.Take(r, start.Add(end))
				lastTotal = total
				base, from = total, end
			}
		}
		if got := l.Received("n")["web"]; got != before+lastTotal {
			t.Fatalf("received %d of %d", got, before+lastTotal)
		}
	})
}

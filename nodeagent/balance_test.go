// SPDX-License-Identifier: Apache-2.0

package nodeagent

import (
	"math"
	"net/netip"
	"testing"
	"time"

	"github.com/edgeweir/weir/internal/cluster"
	"github.com/edgeweir/weir/internal/wire"
	"github.com/edgeweir/weir/nodeagent/arrivals"
	"github.com/edgeweir/weir/nodeagent/ipvs"
)

func example(t *testing.T) *desired {
	t.Helper()
	c, err := cluster.Load("../internal/cluster/testdata/cluster.yaml")
	if err != nil {
		t.Fatal(err)
	}
	d, err := newDesired(c, "edge-2")
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestDesiredOfANode(t *testing.T) {
	d := example(t)
	if len(d.services) != 2 || len(d.pods) != 2 || len(d.podCIDRs) != 4 || len(d.origins) != 8 {
		t.Errorf("%d services, %d pods, %d pod CIDRs, %d origins", len(d.services), len(d.pods), len(d.podCIDRs), len(d.origins))
	}
	dns := d.services[1]
	if len(dns.ready) != 1 || dns.ready[0] != "shop/dns-a" {
		t.Errorf("%s: ready %v: a terminating pod is not", dns.Name, dns.ready)
	}
	if pod := dns.servers[0].pods[netip.MustParseAddrPort("10.244.3.2:5353")]; pod != "shop/dns-b" {
		t.Errorf("the terminating pod's endpoint is %q", pod)
	}
	c, err := cluster.Load("../internal/cluster/testdata/cluster.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := newDesired(c, "edge-9"); err == nil {
		t.Error("a node that is not in the file is accepted")
	}
}

func weights(s ipvs.Service) map[netip.AddrPort]uint32 {
	w := map[netip.AddrPort]uint32{}
	for _, d := range s.Destinations {
		w[d.Endpoint()] = d.Weight
	}
	return w
}

var (
	podA = netip.MustParseAddrPort("10.244.1.2:8080")
	podB = netip.MustParseAddrPort("10.244.2.2:8080")
)

func TestRatiosBecomeWeights(t *testing.T) {
	l := example(t).services[0]
	b := newBalance()
	v := l.servers[0]
	program := func() map[netip.AddrPort]uint32 {
		want := b.server(v.key).program(l, v, "edge-2", b.wanted(l, 0), math.NaN(), ipvs.Demand{Expected: 100, Arrived: 100})
		return weights(want)
	}
	if w := program(); w[podA] != w[podB] || w[podA] == 0 {
		t.Errorf("before the optimizer speaks: %v", w)
	}
	for range 3 {
		b.hear(wire.Share{Admitted: 0.5, Pods: map[string]float64{"shop/web-a": 0.4, "shop/web-b": 0.1}})
	}
	if w := program(); w[podA] != 4*w[podB] {
		t.Errorf("ratios 0.4 and 0.1 of 0.5 admitted: %v", w)
	}
	l.Mode = cluster.Observe
	if w := program(); w[podA] != w[podB] {
		t.Errorf("while only observing: %v", w)
	}
}

func TestStaleRatiosDrift(t *testing.T) {
	l := example(t).services[0]
	b := newBalance()
	b.hear(wire.Share{Admitted: 1, Pods: map[string]float64{"shop/web-a": 0.8, "shop/web-b": 0.2}})
	for _, tt := range []struct{ past, want float64 }{{-3, 0.8}, {0, 0.8}, {driftPeriods / 2.0, 0.65}, {driftPeriods, 0.5}, {100, 0.5}} {
		if r := b.wanted(l, tt.past); !near(r["shop/web-a"], tt.want) {
			t.Errorf("%v periods past the limit: %v, want %v", tt.past, r["shop/web-a"], tt.want)
		}
	}
}

func TestRestartKeepsWhatThePredecessorWrote(t *testing.T) {
	l := example(t).services[0]
	v := l.servers[0]
	have := ipvs.Service{Address: v.key.Address, Port: v.key.Port, Protocol: v.key.Protocol, Scheduler: "sed", Connections: 500,
		Destinations: []ipvs.Destination{
			{Address: podA.Addr(), Port: podA.Port(), Weight: 7, Connections: 300},
			{Address: podB.Addr(), Port: podB.Port(), Weight: 3, Connections: 200},
		}}
	b := newBalance()
	b.inherit(v, have)
	if got := b.server(v.key).observe(v, have); len(got) != 0 || b.server(v.key).seen != 0 {
		t.Errorf("the predecessor's connections count again: %v", got)
	}
	want := b.server(v.key).program(l, v, "edge-2", b.wanted(l, 0), 0.9, ipvs.Demand{Expected: 50})
	if w := weights(want); w[podA] != 7 || w[podB] != 3 || want.Scheduler != "sed" {
		t.Errorf("after a restart: %s %v, was sed 7:3", want.Scheduler, w)
	}
	have.Destinations[0].Connections, have.Connections = 310, 510
	if got := b.server(v.key).observe(v, have); got["shop/web-a"] != 10 || b.server(v.key).seen != 10 {
		t.Errorf("10 more: %v, seen %d", got, b.server(v.key).seen)
	}
}

func TestPulseIsNewsOnce(t *testing.T) {
	start := time.Now()
	f := freshness{since: start}
	pulse := wire.Pulse{Epoch: 1, Period: 7}
	if f.hear(nil, start) || !f.hear(&pulse, start) || f.hear(&pulse, start.Add(time.Minute)) {
		t.Error("a pulse is news the first time only")
	}
	if past := f.past(start.Add(60*time.Second), 5*time.Second, 10); !near(past, 2) {
		t.Errorf("12 periods of silence with a limit of 10: %v past", past)
	}
	older := wire.Pulse{Epoch: 0, Period: 9}
	if !f.hear(&older, start.Add(time.Minute)) {
		t.Error("an emptied Redis counts its epochs anew: that is news")
	}
}

func TestFillerCountsWhatHooksMiss(t *testing.T) {
	totals := func(n uint64) arrivals.Totals {
		return arrivals.Totals{Epoch: "e", Rows: []arrivals.Row{{Service: "web", Origin: "other", ServiceID: 1, Tasks: n}}}
	}
	f := newFiller(arrivals.Netfilter, time.Now())
	if got := f.fill(totals(5), map[string]uint64{"web": 50}); got.ByService()["web"] != 5 || got.Epoch != "e" {
		t.Errorf("where hooks see everything: %+v", got)
	}
	f = newFiller(arrivals.TCX, time.Now())
	steps := []struct{ hooks, seen, want uint64 }{
		{100, 0, 100}, // counted before the agent began
		{110, 10, 110},
		{120, 15, 120}, // IPVS's counters lag
		{120, 23, 123}, // three of the node's own
		{130, 28, 133}, // lag again: what was added stays
		{130, 35, 135},
	}
	for _, s := range steps {
		if got := f.fill(totals(s.hooks), map[string]uint64{"web": s.seen}).ByService()["web"]; got != s.want {
			t.Errorf("hooks %d, IPVS %d: %d, want %d", s.hooks, s.seen, got, s.want)
		}
	}
	two := f.fill(totals(130), map[string]uint64{"web": 35, "dns": 9})
	if got := arrivals.Delta(arrivals.Totals{Epoch: two.Epoch}, two).ByService(); got["web"] != 135 || got["dns"] != 9 {
		t.Errorf("rows of two services: %v", got)
	}
}

func TestReportCoversWhatRedisDidNotTake(t *testing.T) {
	start := time.Unix(1_000_000, 0)
	row := func(origin string, id uint32, n uint64) arrivals.Row {
		return arrivals.Row{Service: "web", Origin: origin, ServiceID: 1, OriginID: id, Tasks: n}
	}
	base := reading{at: start, totals: arrivals.Totals{Epoch: "e", Rows: []arrivals.Row{row("a", 2, 10)}}}
	now := reading{at: start.Add(15 * time.Second), taken: map[string]ratios{"web": {"p": 0.75, "q": 0.25}},
		totals: arrivals.Totals{Epoch: "e", Rows: []arrivals.Row{row("a", 2, 30), row("b", 3, 20)}}}
	config := Config{Node: "n", Period: 5 * time.Second}
	r := newReport(config, "boot", arrivals.Netfilter, newClock(config.Period, "n"), base, now, wire.Usage{})
	web := r.Services["web"]
	if web.Tasks != 40 || web.Total != 50 || web.Origins["a"] != 20 || web.Origins["b"] != 20 || web.Pods["p"] != 30 {
		t.Errorf("report %+v", web)
	}
	if r.End.Sub(r.Start) != 15*time.Second {
		t.Errorf("interval %s to %s", r.Start, r.End)
	}
	if _, err := wire.Encode(r); err != nil {
		t.Error(err)
	}
	now.at = start.Add(-time.Hour) // the wall clock was set back
	if _, err := wire.Encode(newReport(config, "boot", arrivals.Netfilter, newClock(config.Period, "n"), base, now, wire.Usage{})); err != nil {
		t.Errorf("after a step of the clock: %v", err)
	}
}

func TestFewOriginsAreNamed(t *testing.T) {
	var totals arrivals.Totals
	for i := range 20 {
		totals.Rows = append(totals.Rows, arrivals.Row{Service: "web", Origin: string(rune('a' + i)), OriginID: uint32(i), Tasks: uint64(100 - i)})
	}
	got := originsOfService(totals, "web")
	sum := uint64(0)
	for _, n := range got {
		sum += n
	}
	if len(got) != topOrigins+1 || got["a"] != 100 || got[restOrigins] == 0 || sum != 1810 {
		t.Errorf("origins %v", got)
	}
}

// SPDX-License-Identifier: Apache-2.0

package ipvs

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

var start = time.Unix(1_700_000_000, 0)

// model is the kernel's table as far as Plan knows it. It refuses what the
// kernel refuses.
type model map[Key]Service

func modelOf(services []Service) model {
	m := model{}
	for _, s := range services {
		s.Destinations = slices.Clone(s.Destinations)
		m[s.Key()] = s
	}
	return m
}

func (m model) apply(ops []Op) error {
	for _, o := range ops {
		k, e := o.Service.Key(), o.Destination.Endpoint()
		s, exists := m[k]
		i := slices.IndexFunc(s.Destinations, func(d Destination) bool { return d.Endpoint() == e })
		switch {
		case exists == (o.Kind == CreateService):
			return fmt.Errorf("%s: service exists: %t", o, exists)
		case o.Kind == CreateService, o.Kind == UpdateService:
			n := o.Service
			n.Flags, n.Netmask, n.Destinations = n.flags(), n.netmask(), s.Destinations
			m[k] = n
			continue
		case o.Kind == RemoveService:
			delete(m, k)
			continue
		case (i >= 0) == (o.Kind == AddDestination):
			return fmt.Errorf("%s: destination exists: %t", o, i >= 0)
		case o.Kind == AddDestination:
			s.Destinations = append(s.Destinations, o.Destination)
		case o.Kind == UpdateDestination:
			s.Destinations[i].Weight, s.Destinations[i].Method = o.Destination.Weight, 0
		case o.Kind == RemoveDestination:
			s.Destinations = slices.Delete(s.Destinations, i, i+1)
		}
		m[k] = s
	}
	return nil
}

func (m model) services() []Service {
	var all []Service
	for _, s := range m {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b Service) int { return a.Key().Compare(b.Key()) })
	return all
}

// sameTable compares what Plan is answerable for.
var sameTable = cmp.Options{
	cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
	cmpopts.IgnoreFields(Service{}, "Flags", "Netmask", "Connections"),
	cmpopts.IgnoreFields(Destination{}, "ActiveConns", "InactiveConns", "Connections", "Method"),
	cmpopts.SortSlices(func(a, b Destination) bool { return a.Endpoint().Compare(b.Endpoint()) < 0 }),
	cmpopts.SortSlices(func(a, b Service) bool { return a.Key().Compare(b.Key()) < 0 }),
	cmpopts.EquateEmpty(),
}

func genService(t *rapid.T, label string) Service {
	s := Service{
		Address: netip.MustParseAddr(rapid.SampledFrom([]string{"10.96.0.1", "10.96.0.2", "fd00::1"}).Draw(t, label+" address")),
		Port:    rapid.SampledFrom([]uint16{80, 443}).Draw(t, label+" port"),
		Protocol: rapid.SampledFrom([]Protocol{TCP, UDP, SCTP}).
			Draw(t, label+" protocol"),
		Scheduler: rapid.SampledFrom([]string{"wrr", "sed", "mh"}).Draw(t, label+" scheduler"),
		Affinity:  rapid.SampledFrom([]time.Duration{0, 0, time.Minute}).Draw(t, label+" affinity"),
	}
	base := netip.MustParseAddr("10.1.0.1")
	if s.Address.Is6() {
		base = netip.MustParseAddr("fd01::1")
	}
	for i := range 5 {
		if rapid.Bool().Draw(t, fmt.Sprintf("%s has %d", label, i)) {
			s.Destinations = append(s.Destinations, Destination{Address: base, Port: 8080,
				Weight: rapid.Uint32Range(0, 9).Draw(t, label+" weight")})
		}
		base = base.Next()
	}
	return s
}

func genTable(t *rapid.T, label string) []Service {
	m := model{}
	for range rapid.IntRange(0, 6).Draw(t, label+" services") {
		s := genService(t, label)
		m[s.Key()] = s
	}
	return m.services()
}

// inKernel gives wanted services the read-only fields that a dump has.
func inKernel(t *rapid.T, services []Service) []Service {
	for i := range services {
		s := &services[i]
		s.Flags, s.Netmask = s.flags(), s.netmask()
		for j := range s.Destinations {
			s.Destinations[j].ActiveConns = rapid.Uint32Range(0, 1).Draw(t, "active")
			s.Destinations[j].Method = rapid.SampledFrom([]uint32{0, 0, 3}).Draw(t, "method")
		}
	}
	return services
}

func TestPlanReachesWantAndNothingElse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		foreign := netip.MustParseAddr("10.96.0.2")
		owned := func(k Key) bool { return k.Address != foreign }
		have := inKernel(t, genTable(t, "have"))
		want := genTable(t, "want")
		table, drain, now := modelOf(have), Drain{Limit: time.Minute}, start
		var ops []Op
		for range 4 {
			ops, drain = Plan(table.services(), want, owned, now, drain)
			for _, o := range ops {
				if !owned(o.Service.Key()) {
					t.Fatalf("foreign virtual server written: %s", o)
				}
			}
			if err := table.apply(ops); err != nil {
				t.Fatal(err)
			}
			now = now.Add(time.Minute)
		}
		if len(ops) != 0 || drain.Draining() != 0 {
			t.Fatalf("not settled: %v, %d draining", ops, drain.Draining())
		}
		expected := model{}
		for _, s := range have {
			if !owned(s.Key()) {
				expected[s.Key()] = s
			}
		}
		for _, s := range want {
			if owned(s.Key()) {
				expected[s.Key()] = s
			}
		}
		if diff := cmp.Diff(expected.services(), table.services(), sameTable); diff != "" {
			t.Fatalf("table after the plan (-want +have):\n%s", diff)
		}
	})
}

// A service that could serve before and can after must be able to between any
// two writes: packets arrive while the batch is applied.
func TestPlanKeepsAWeightThroughout(t *testing.T) {
	weight := func(s Service) (sum uint32) {
		for _, d := range s.Destinations {
			sum += d.Weight
		}
		return sum
	}
	rapid.Check(t, func(t *rapid.T) {
		have := inKernel(t, genTable(t, "have"))
		want := genTable(t, "want")
		table, wanted := modelOf(have), modelOf(want)
		served := func(k Key) bool { return weight(table[k]) > 0 && weight(wanted[k]) > 0 }
		ops, _ := Plan(have, want, func(Key) bool { return true }, start, Drain{Limit: time.Minute})
		for _, o := range ops {
			k := o.Service.Key()
			before := served(k)
			if err := table.apply([]Op{o}); err != nil {
				t.Fatal(err)
			}
			if before && !served(k) {
				t.Fatalf("%s leaves the service without weight", o)
			}
		}
	})
}

func TestPlanDrains(t *testing.T) {
	pod := func(active, weight uint32) Destination {
		return Destination{Address: netip.MustParseAddr("10.1.0.1"), Port: 8080, ActiveConns: active, Weight: weight}
	}
	service := func(p Protocol, ds ...Destination) []Service {
		s := Service{Address: netip.MustParseAddr("10.96.0.1"), Port: 80, Protocol: p, Scheduler: "wrr", Destinations: ds}
		s.Flags, s.Netmask = s.flags(), s.netmask()
		return []Service{s}
	}
	owned := func(Key) bool { return true }
	kinds := func(ops []Op) (all []Kind) {
		for _, o := range ops {
			all = append(all, o.Kind)
		}
		return all
	}
	for _, tt := range []struct {
		name  string
		have  []Service
		want  []Service
		after time.Duration // since the drain began; negative: it has not
		ops   []Kind
		waits int
	}{
		{"busy pod first to weight 0", service(TCP, pod(1, 5)), service(TCP), -1, []Kind{UpdateDestination}, 1},
		{"idle pod first to weight 0", service(TCP, pod(0, 5)), service(TCP), -1, []Kind{UpdateDestination}, 1},
		{"busy pod waits", service(TCP, pod(1, 0)), service(TCP), time.Second, nil, 1},
		{"idle pod goes", service(TCP, pod(0, 0)), service(TCP), time.Second, []Kind{RemoveDestination}, 0},
		{"limit ends the wait", service(TCP, pod(1, 0)), service(TCP), time.Minute, []Kind{RemoveDestination}, 0},
		{"associations drain too", service(SCTP, pod(1, 5)), service(SCTP), -1, []Kind{UpdateDestination}, 1},
		{"flows do not", service(UDP, pod(1, 5)), service(UDP), -1, []Kind{RemoveDestination}, 0},
		{"pod that comes back serves", service(TCP, pod(1, 0)), service(TCP, pod(0, 5)), time.Second, []Kind{UpdateDestination}, 0},
		{"service waits for its pods", service(TCP, pod(1, 5)), nil, -1, []Kind{UpdateDestination}, 1},
		{"idle service goes whole", service(TCP, pod(0, 0)), nil, -1, []Kind{RemoveService}, 0},
		{"flow service goes whole", service(UDP, pod(1, 5)), nil, -1, []Kind{RemoveService}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			drain := Drain{Limit: time.Minute}
			if tt.after >= 0 {
				key := drained{tt.have[0].Key(), tt.have[0].Destinations[0].Endpoint()}
				drain.since = map[drained]time.Time{key: start.Add(-tt.after)}
			}
			ops, next := Plan(tt.have, tt.want, owned, start, drain)
			if diff := cmp.Diff(tt.ops, kinds(ops)); diff != "" {
				t.Errorf("operations (-want +have):\n%s", diff)
			}
			if next.Draining() != tt.waits {
				t.Errorf("%d destinations drain, want %d", next.Draining(), tt.waits)
			}
		})
	}
}

func TestStagger(t *testing.T) {
	list := func(node string) []Destination {
		var ds []Destination
		for i := range 4 {
			ds = append(ds, Destination{Address: netip.AddrFrom4([4]byte{10, 1, 0, byte(i)}), Port: 80})
		}
		Stagger(node, ds)
		return ds
	}
	first := map[netip.Addr]int{}
	for i := range 400 {
		node := fmt.Sprintf("node-%d", i)
		ds := list(node)
		if again := list(node); !slices.Equal(ds, again) {
			t.Fatalf("order of %s changes: %v, then %v", node, ds, again)
		}
		first[ds[3].Address]++
	}
	for a, n := range first {
		if n < 60 || n > 140 {
			t.Errorf("%s comes first on %d of 400 nodes, expected about 100", a, n)
		}
	}
}

func TestDelta(t *testing.T) {
	for _, tt := range []struct{ before, now, want uint32 }{
		{10, 15, 5}, {10, 10, 0}, {1<<32 - 2, 3, 5}, {500, 7, 7},
	} {
		if have := Delta(tt.before, tt.now); have != tt.want {
			t.Errorf("Delta(%d, %d) = %d, want %d", tt.before, tt.now, have, tt.want)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package model

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func scale(t testing.TB, s *Snapshot) *ScalingDecision {
	t.Helper()
	d, err := Scale(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// refWorkload is a workload as the tests read it from a snapshot, apart from the model's own compilation.
type refWorkload struct {
	service               string
	demand, sla           float64
	energy, deploy        float64
	request               Quantities
	low, high             int
	current               []int // by node
	share                 []float64
	floor, currentInTotal int
}

// reference groups by workload name; every pod of these snapshots carries one.
func reference(s *Snapshot) []*refWorkload {
	byName := make(map[string]*refWorkload)
	var out []*refWorkload
	for _, v := range s.Services {
		if v.SLATasksPerPod == 0 {
			continue
		}
		w := byName[v.Workload]
		if w == nil {
			w = &refWorkload{low: 1, high: math.MaxInt, request: Quantities{}, current: make([]int, len(s.Nodes)),
				share: make([]float64, len(s.Nodes)), sla: 1, demand: -1}
			byName[v.Workload] = w
			out = append(out, w)
			for _, p := range s.Pods {
				for n := range s.Nodes {
					if p.Workload == v.Workload && p.Node == s.Nodes[n].Name {
						w.current[n]++
						w.currentInTotal++
					}
				}
			}
		}
		share, demand := make([]float64, len(s.Nodes)), 0.0
		for _, a := range s.Arrivals {
			if a.Service == v.Name {
				demand += a.SliceTasks
				share[slices.IndexFunc(s.Nodes, func(n Node) bool { return n.Name == a.Node })] += a.SliceTasks
			}
		}
		if demand/v.SLATasksPerPod > w.demand/w.sla {
			w.demand, w.sla, w.share, w.service = demand, v.SLATasksPerPod, share, v.Name
		}
		w.low = max(w.low, v.MinReplicas)
		if v.MaxReplicas > 0 {
			w.high = min(w.high, v.MaxReplicas)
		}
		w.energy = math.Max(w.energy, s.Scaling.EnergyWeight*v.EnergyCost)
		w.deploy = math.Max(w.deploy, s.Scaling.DeployWeight*v.DeployCost)
		for k, q := range v.PodRequest {
			w.request[k] = math.Max(w.request[k], q)
		}
	}
	for _, w := range out {
		w.floor = min(w.low, w.currentInTotal, w.high)
	}
	return out
}

// rooms are free, base and size by node and resource.
func rooms(s *Snapshot, n int, k string) (free, base, size float64) {
	node := s.Nodes[n]
	size, base = math.Inf(1), 0
	if v, ok := node.Allocatable[k]; ok {
		size, base = v, node.Requested[k]
	} else if v, ok := node.Capacity[k]; ok {
		size, base = v, node.Used[k]
	}
	return math.Max(0, size-base), base, size
}

// refWorth judges placements x (by workload and node) by the formulas of the design; ok says whether they hold.
func refWorth(s *Snapshot, work []*refWorkload, x [][]int) (v worth, ok bool) {
	for i, w := range work {
		total, up, down := 0, false, false
		for n, c := range x[i] {
			total += c
			up, down = up || c > w.current[n], down || c < w.current[n]
			if c < 0 || c > w.current[n] && !s.Nodes[n].Ready {
				return v, false
			}
			share := 0.0
			if w.demand > 0 {
				share = w.share[n] / w.demand
			}
			v.away += float64(c-w.current[n]) * (1 - share)
		}
		if up && down || total < w.floor || total > w.high {
			return v, false
		}
		v.short += max(0, w.low-total)
		v.cost += w.energy*float64(total) + w.deploy*float64(max(0, total-w.currentInTotal)) +
			s.Scaling.UnmetPenalty*math.Max(0, w.demand-w.sla*float64(total))
	}
	for n := range s.Nodes {
		for _, k := range s.Resources {
			free, base, size := rooms(s, n, k)
			change := 0.0
			for i, w := range work {
				change += float64(x[i][n]-w.current[n]) * w.request[k]
			}
			if change > free+1e-9 {
				return v, false
			}
			if size > 0 && !math.IsInf(size, 1) && s.Nodes[n].Ready {
				v.peak = math.Max(v.peak, (base+change)/size)
			}
		}
	}
	return v, true
}

// bruteForce tries every placement.
func bruteForce(s *Snapshot, work []*refWorkload) worth {
	best := worth{short: math.MaxInt}
	x := make([][]int, len(work))
	for i := range x {
		x[i] = make([]int, len(s.Nodes))
	}
	var try func(i, n int)
	try = func(i, n int) {
		if i == len(work) {
			if v, ok := refWorth(s, work, x); ok && v.compare(best) < 0 {
				best = v
			}
			return
		}
		if n == len(s.Nodes) {
			try(i+1, 0)
			return
		}
		w := work[i]
		most := w.current[n]
		if s.Nodes[n].Ready { // more than the demand or the minimum needs is never better
			most = max(most, w.low, int(math.Ceil(w.demand/w.sla)))
		}
		for c := 0; c <= most; c++ {
			x[i][n] = c
			if countOf(x[i][:n+1]) > max(w.currentInTotal, w.low, int(math.Ceil(w.demand/w.sla))) {
				break
			}
			try(i, n+1)
		}
		x[i][n] = 0
	}
	try(0, 0)
	return best
}

func countOf(v []int) int {
	total := 0
	for _, x := range v {
		total += x
	}
	return total
}

// placement reads a decision; workloads are in the order of the reference.
func placementOf(t fataler, s *Snapshot, work []*refWorkload, d *ScalingDecision) [][]int {
	if len(d.Replicas) != len(work) {
		t.Fatalf("%d workloads, want %d", len(d.Replicas), len(work))
	}
	x := make([][]int, len(work))
	for i, w := range work {
		r := d.Replicas[i]
		x[i] = make([]int, len(s.Nodes))
		for n := range s.Nodes {
			x[i][n] = r.Nodes[s.Nodes[n].Name]
		}
		if countOf(x[i]) != r.Total || r.Service != w.service || r.Current != w.currentInTotal || r.Short != max(0, w.low-r.Total) ||
			math.Abs(r.Unmet-math.Max(0, w.demand-w.sla*float64(r.Total))) > 1e-6 {
			t.Fatalf("workload %d of %+v: %+v", i, w, r)
		}
	}
	return x
}

type fataler interface{ Fatalf(string, ...any) }

func TestScaleEqualsBruteForce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawScaling(t)
		d, err := Scale(context.Background(), s)
		if errors.Is(err, ErrInfeasible) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		work := reference(s)
		got, ok := refWorth(s, work, placementOf(t, s, work, d))
		want := bruteForce(s, work)
		if !ok || got.compare(want) != 0 || compareNear(d.Cost, want.cost) != 0 {
			t.Fatalf("got %+v (feasible %v), cost %v, want %+v\n%+v", got, ok, d.Cost, want, d)
		}
		if d.Status != StatusOptimal || d.Gap != 0 || d.Bound != d.Cost {
			t.Fatalf("not proven: %+v", d)
		}
	})
}

// fleet draws a cluster of the benchmark's kind: `used` of every node is requested, each workload runs three pods
// and wants a few more or fewer.
func scalingCluster(services, nodes int, used float64) *Snapshot {
	r := newRandom(services)
	s := NewSnapshot()
	for n := range nodes {
		node := newNode()
		cpu, memory := float64(4*(1+r.IntN(4))), float64(8*(1+r.IntN(4)))*1e9
		node.Name = fmt.Sprintf("node-%d", n)
		node.Capacity = Quantities{"cpu": cpu, "memory": memory}
		node.Allocatable = node.Capacity
		node.Requested = Quantities{"cpu": cpu * math.Min(1, used+0.1*(r.Float64()-0.5)),
			"memory": memory * math.Min(1, used+0.1*(r.Float64()-0.5))}
		s.Nodes = append(s.Nodes, node)
	}
	for l := range services {
		v := newService()
		v.Name = fmt.Sprintf("default/service-%d:http", l)
		v.Workload = fmt.Sprintf("default/Deployment/service-%d", l)
		v.SLATasksPerPod = float64(100 * (1 + r.IntN(5)))
		v.EnergyCost, v.DeployCost = float64(1+r.IntN(3)), float64(1+r.IntN(3))
		v.MinReplicas, v.MaxReplicas = 1+r.IntN(2), 20
		v.PodRequest = Quantities{"cpu": 0.1 * float64(1+r.IntN(10)), "memory": 1e8 * float64(1+r.IntN(20))}
		s.Services = append(s.Services, v)
		for p := range 3 {
			pod := newPod()
			pod.Name, pod.Workload = fmt.Sprintf("default/service-%d-%d", l, p), v.Workload
			pod.Services, pod.Node = []string{v.Name}, s.Nodes[r.IntN(nodes)].Name
			s.Pods = append(s.Pods, pod)
		}
		pods := 1 + 5*r.Float64()
		for range 10 {
			n := r.IntN(nodes)
			if slices.ContainsFunc(s.Arrivals[max(0, len(s.Arrivals)-10):], func(a Arrival) bool {
				return a.Service == v.Name && a.Node == s.Nodes[n].Name
			}) {
				continue
			}
			tasks := pods * v.SLATasksPerPod * 0.2 * r.Float64()
			s.Arrivals = append(s.Arrivals, Arrival{Service: v.Name, Node: s.Nodes[n].Name, Tasks: tasks, Last: tasks, SliceTasks: tasks})
		}
	}
	return s
}

func BenchmarkScale(b *testing.B) {
	for _, size := range []int{10, 100, 1000} {
		for _, used := range []float64{0.5, 0.9, 0.97} {
			s := scalingCluster(size, size, used)
			s.Scaling.TimeLimit = Duration(5e9)
			b.Run(fmt.Sprintf("%dx%d/used%g", size, size, used), func(b *testing.B) {
				var d *ScalingDecision
				for b.Loop() {
					d = scale(b, s)
				}
				b.ReportMetric(100*d.Gap, "gap%")
				b.ReportMetric(d.Penalty, "penalty")
				b.ReportMetric(d.Cost-d.Penalty, "cost")
				if d.Status == StatusOptimal {
					b.ReportMetric(1, "proven")
				}
			})
		}
	}
}

// What large clusters rely on, tried where brute force knows better: bounds hold, exchanges stay feasible.
func TestScalePooledBoundHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawScaling(t)
		in, err := compileScaling(s)
		if errors.Is(err, ErrInfeasible) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		ctx, want := context.Background(), bruteForce(s, reference(s))
		f := newScalingSearch(in, time.Now())
		f.best = in.heuristic()
		newExchanger(f.best, f.hosts).settle(in.byDensity(), func() bool { return false })
		if err := f.pooledBound(ctx, time.Second); err != nil {
			t.Fatal(err)
		}
		f.shake(ctx, f.deadline)
		v := f.best.costs()
		if err := f.best.check(); err != nil || v.compareCost(want) < 0 {
			t.Fatalf("plan %+v, %v, better than all: %+v", v, err, want)
		}
		if f.leastShort > want.short || v.short == want.short && f.lower(v.short) > want.cost+1e-6*max(1, want.cost) {
			t.Fatalf("bounds %d, %v of %+v", f.leastShort, f.bound, want)
		}
	})
}

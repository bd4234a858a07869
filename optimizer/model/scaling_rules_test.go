// SPDX-License-Identifier: Apache-2.0

package model

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// sized is one service "s" of 100 tasks a pod and slice, whose pods ask for 1 cpu, on nodes n0, n1, … with so many
// cores free; pods are by node.
func sized(free []float64, pods []int, tasks ...float64) *Snapshot {
	s := NewSnapshot()
	s.Scaling.TimeLimit = Duration(time.Minute) // no proof here may depend on how busy the machine is
	v := newService()
	v.Name, v.Workload, v.SLATasksPerPod, v.PodRequest = "s", "w", 100, Quantities{"cpu": 1}
	s.Services = []Service{v}
	for i, f := range free {
		node := newNode()
		node.Name, node.Capacity = fmt.Sprint("n", i), Quantities{"cpu": 10}
		node.Used = Quantities{"cpu": 10 - f}
		s.Nodes = append(s.Nodes, node)
		for j := range pods[i] {
			pod := newPod()
			pod.Name, pod.Node, pod.Workload, pod.Services = fmt.Sprintf("p%d-%d", i, j), node.Name, "w", []string{"s"}
			s.Pods = append(s.Pods, pod)
		}
	}
	for i, t := range tasks {
		s.Arrivals = append(s.Arrivals, Arrival{Service: "s", Node: s.Nodes[i].Name, Tasks: t / 12, SliceTasks: t})
	}
	return s
}

// wantReplicas compares the first workload with "total unmet short node=count …".
func wantReplicas(t *testing.T, d *ScalingDecision, want string) {
	t.Helper()
	r := d.Replicas[0]
	var nodes []string
	for n, c := range r.Nodes {
		nodes = append(nodes, fmt.Sprintf(" %s=%d", n, c))
	}
	slices.Sort(nodes)
	if got := fmt.Sprintf("%d %g %d%s", r.Total, r.Unmet, r.Short, strings.Join(nodes, "")); got != want {
		t.Errorf("got %s, want %s\n%+v", got, want, d)
	}
}

func TestScaleFollowsTheDemand(t *testing.T) {
	d := scale(t, sized([]float64{5, 5}, []int{1, 0}, 100, 250))
	wantReplicas(t, d, "4 0 0 n0=1 n1=3") // the larger share of demand is at n1
	if d.Status != StatusOptimal || d.Cost != 4+3 || d.Penalty != 0 || d.Bound != d.Cost {
		t.Errorf("got %+v", d)
	}
	wantReplicas(t, scale(t, sized([]float64{5, 1}, []int{1, 0}, 100, 250)), "4 0 0 n0=3 n1=1")
	wantReplicas(t, scale(t, sized([]float64{5, 5}, []int{2, 3}, 90, 10)), "1 0 0 n0=1")
}

func TestScaleRoundsLikeArithmetic(t *testing.T) {
	s := sized([]float64{0.30000000000000004 - 2e-17}, []int{0}, 30)
	s.Services[0].SLATasksPerPod, s.Services[0].PodRequest = 10.000000000000002, Quantities{"cpu": 0.1}
	wantReplicas(t, scale(t, s), "3 0 0 n0=3")
	s.Arrivals[0].SliceTasks = 30.000000001 // not a fourth pod for 1e-9 tasks
	wantReplicas(t, scale(t, s), "3 0 0 n0=3")
}

func TestScaleWithoutDemand(t *testing.T) {
	wantReplicas(t, scale(t, sized([]float64{5, 5}, []int{2, 1})), "1 0 0 n0=1") // each node loses one: the least highest utilisation
	wantReplicas(t, scale(t, sized([]float64{5}, []int{0}, 0)), "1 0 0 n0=1")
	s := sized([]float64{5}, []int{0}, 0)
	s.Services[0].MinReplicas = 3
	wantReplicas(t, scale(t, s), "3 0 0 n0=3")
}

func TestScaleTellsWhatIsShort(t *testing.T) {
	s := sized([]float64{1.5, 0.5}, []int{0, 1}, 300, 150)
	d := scale(t, s)
	wantReplicas(t, d, "2 250 0 n0=1 n1=1")
	if d.Penalty != 250*1000 || d.Cost != 2+1+250*1000 || d.Status != StatusOptimal {
		t.Errorf("got %+v", d)
	}
	if want := []string{"s: short by 250 of 450 tasks with 2 pods, no node has room: 2 of 2 lack cpu for 1 more"}; !slices.Equal(d.Why, want) {
		t.Errorf("why %q", d.Why)
	}
	s.Services[0].MinReplicas = 4
	d = scale(t, s)
	wantReplicas(t, d, "2 250 2 n0=1 n1=1")
	if want := "s: 2 of at least 4 pods, no node has room: 2 of 2 lack cpu for 1 more"; len(d.Why) != 1 || d.Why[0] != want {
		t.Errorf("why %q", d.Why)
	}
	s.Services[0].MinReplicas, s.Services[0].MaxReplicas = 1, 1
	d = scale(t, s)
	wantReplicas(t, d, "1 350 0 n1=1")
	if want := "its maximum is 1"; !strings.HasSuffix(d.Why[0], want) {
		t.Errorf("why %q", d.Why)
	}
}

func TestScaleWeighsTasksAgainstPods(t *testing.T) {
	s := sized([]float64{5}, []int{1}, 201)
	s.Scaling.UnmetPenalty = 1 // a third pod costs 2 for 1 task, a second 2 for 100
	d := scale(t, s)
	wantReplicas(t, d, "2 1 0 n0=2")
	if d.Cost != 2+1+1 || d.Penalty != 1 || !strings.HasSuffix(d.Why[0], "another pod costs 2 and saves less") {
		t.Errorf("got %+v", d)
	}
}

func TestScaleLeavesUnscaledServicesAlone(t *testing.T) {
	s := sized([]float64{5}, []int{1}, 1000)
	s.Services[0].SLATasksPerPod = 0
	if d := scale(t, s); len(d.Replicas) != 0 || d.Cost != 0 || d.Status != StatusOptimal || len(d.Why) != 0 {
		t.Errorf("got %+v", d)
	}
	if d := scale(t, NewSnapshot()); d.Status != StatusOptimal {
		t.Errorf("got %+v", d)
	}
}

func TestScaleNeverGrowsOnNodesThatAreNotReady(t *testing.T) {
	s := sized([]float64{9, 1}, []int{1, 0}, 300)
	s.Nodes[0].Ready = false
	d := scale(t, s)
	wantReplicas(t, d, "2 100 0 n0=1 n1=1")
	s.Nodes[1].Ready = false
	d = scale(t, s)
	wantReplicas(t, d, "1 200 0 n0=1")
	if !strings.HasSuffix(d.Why[0], "no node is ready") {
		t.Errorf("why %q", d.Why)
	}
}

func TestScalePrefersAllocatable(t *testing.T) {
	s := sized([]float64{9}, []int{0}, 500)
	s.Nodes[0].Allocatable, s.Nodes[0].Requested = Quantities{"cpu": 8}, Quantities{"cpu": 6}
	wantReplicas(t, scale(t, s), "2 300 0 n0=2")
	s.Nodes[0].Requested = Quantities{"cpu": 9} // overcommitted is no room, and no debt
	wantReplicas(t, scale(t, s), "0 500 1")
	s.Nodes[0].Allocatable, s.Nodes[0].Capacity = nil, nil // unlimited
	wantReplicas(t, scale(t, s), "5 0 0 n0=5")
}

// A port more over the same pods changes neither cost nor size, unless it is the tighter one.
func TestScalePortsShareTheirWorkload(t *testing.T) {
	s := sized([]float64{9}, []int{1}, 250)
	port := s.Services[0]
	port.Name, port.SLATasksPerPod = "admin", 10
	s.Services = append(s.Services, port)
	s.Arrivals = append(s.Arrivals, Arrival{Service: "admin", Node: "n0", SliceTasks: 20})
	d := scale(t, s)
	wantReplicas(t, d, "3 0 0 n0=3")
	if len(d.Replicas) != 1 || d.Replicas[0].Service != "s" || d.Cost != 3+2 {
		t.Errorf("got %+v", d)
	}
	s.Arrivals[1].SliceTasks = 45
	d = scale(t, s)
	wantReplicas(t, d, "5 0 0 n0=5")
	if len(d.Replicas) != 1 || d.Replicas[0].Service != "admin" || d.Cost != 5+4 {
		t.Errorf("got %+v", d)
	}
	s.Services[0].MaxReplicas = 2 // the narrower bound counts, whichever port has it
	d = scale(t, s)
	wantReplicas(t, d, "2 25 0 n0=2")
	if !strings.Contains(d.Why[0], "(1 more of its ports is, too)") {
		t.Errorf("why %q", d.Why)
	}
}

func TestScaleFindsWorkloadsOfPodsWithoutOne(t *testing.T) {
	s := sized([]float64{9}, []int{2}, 250)
	port := s.Services[0]
	port.Name = "admin"
	s.Services = append(s.Services, port)
	for l := range s.Services {
		s.Services[l].Workload = s.Services[l].Name
	}
	for p := range s.Pods {
		s.Pods[p].Workload, s.Pods[p].Services = s.Pods[p].Name, []string{"s", "admin"}
	}
	d := scale(t, s)
	wantReplicas(t, d, "3 0 0 n0=3")
	if len(d.Replicas) != 1 || d.Replicas[0].Current != 2 {
		t.Errorf("got %+v", d)
	}
	s.Pods[1].Services = []string{"s"} // not the same pods: two workloads
	if d := scale(t, s); len(d.Replicas) != 2 || d.Replicas[1].Current != 1 {
		t.Errorf("got %+v", d)
	}
}

// Running pods above their minimum give way to what is worth more; below it they stay.
func TestScaleMakesRoom(t *testing.T) {
	s := sized([]float64{0}, []int{3}, 300)
	v := s.Services[0]
	v.Name, v.Workload, v.SLATasksPerPod = "dear", "dear", 1000
	s.Services = append(s.Services, v)
	s.Services[0].MinReplicas = 2
	s.Arrivals = append(s.Arrivals, Arrival{Service: "dear", Node: "n0", SliceTasks: 2000})
	d := scale(t, s)
	wantReplicas(t, d, "2 100 0 n0=2")
	if d.Replicas[1].Total != 1 || d.Status != StatusOptimal {
		t.Errorf("got %+v", d)
	}
	s.Services[0].MinReplicas, s.Services[1].MinReplicas = 3, 2
	d = scale(t, s)
	wantReplicas(t, d, "3 0 0 n0=3")
	if d.Replicas[1].Short != 2 {
		t.Errorf("got %+v", d)
	}
}

func TestScaleBoundsAbsurdDemand(t *testing.T) {
	s := sized(make([]float64, 200), make([]int, 200), 1e300)
	s.Services[0].PodRequest, s.Services[0].MinReplicas = Quantities{}, 1<<53
	if d := scale(t, s); d.Replicas[0].Total != mostReplicas || d.Replicas[0].Short != 1<<53-mostReplicas {
		t.Errorf("got %+v", d)
	}
}

// firstFitDecreasing is the heuristic that the model must never lose against, written apart from it.
func firstFitDecreasing(s *Snapshot, work []*refWorkload) [][]int {
	x, left := make([][]int, len(work)), make([]Quantities, len(s.Nodes))
	for n := range s.Nodes {
		left[n] = Quantities{}
		for _, k := range s.Resources {
			left[n][k], _, _ = rooms(s, n, k)
		}
	}
	order := make([]int, len(work))
	for i, w := range work {
		order[i], x[i] = i, slices.Clone(w.current)
		surplus := w.currentInTotal - max(w.low, int(math.Ceil(w.demand/w.sla-1e-9)))
		for n := range x[i] {
			for ; surplus > 0 && x[i][n] > 0; surplus-- {
				x[i][n]--
				for k := range w.request {
					left[n][k] += w.request[k]
				}
			}
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return -slices.Compare([]float64{work[a].request["cpu"], work[a].request["memory"]},
			[]float64{work[b].request["cpu"], work[b].request["memory"]})
	})
	for _, i := range order {
		w := work[i]
		for want := min(w.high, max(w.low, int(math.Ceil(w.demand/w.sla-1e-9)))) - countOf(x[i]); want > 0; want-- {
			n := slices.IndexFunc(left, func(q Quantities) bool {
				return q["cpu"] >= w.request["cpu"]-1e-9 && q["memory"] >= w.request["memory"]-1
			})
			if n < 0 {
				break
			}
			x[i][n]++
			for k := range w.request {
				left[n][k] -= w.request[k]
			}
		}
	}
	return x
}

func TestScaleIsNeverWorseThanFirstFitDecreasing(t *testing.T) {
	for i, used := range []float64{0.5, 0.8, 0.9, 0.95, 0.97, 1} {
		for _, size := range []int{5, 20, 45} {
			s := scalingCluster(size+i, size, used)
			s.Scaling.TimeLimit = Duration(300 * time.Millisecond)
			work := reference(s)
			want, ok := refWorth(s, work, firstFitDecreasing(s, work))
			d := scale(t, s)
			got, feasible := refWorth(s, work, placementOf(t, s, work, d))
			if !ok || !feasible || got.compareCost(want) > 0 || d.Bound > d.Cost || d.Gap < 0 || d.Gap > 1 ||
				compareNear(got.cost, d.Cost) != 0 || (d.Status == StatusOptimal) != (d.Gap == 0) {
				t.Errorf("%d workloads, %g used: got %+v (%v) with bound %v, gap %v, %s; first fit %+v (%v)", size+i, used, got,
					feasible, d.Bound, d.Gap, d.Status, want, ok)
			}
		}
	}
}

func TestScaleIsTheSameEveryTime(t *testing.T) {
	for _, s := range []*Snapshot{scalingCluster(60, 60, 0.5), scalingCluster(12, 12, 0.97)} {
		s.Scaling.TimeLimit = Duration(time.Minute)
		a, b := scale(t, s), scale(t, s)
		a.SolveMillis, b.SolveMillis = 0, 0
		if !reflect.DeepEqual(a, b) {
			t.Errorf("got %+v, then %+v", a, b)
		}
	}
}

func TestScaleEndsWithItsContextAndItsLimit(t *testing.T) {
	s := scalingCluster(200, 200, 0.97)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	s.Scaling.TimeLimit = Duration(time.Minute)
	began := time.Now()
	if d, err := Scale(ctx, s); err != nil || d.Status != StatusFeasible || time.Since(began) > 5*time.Second {
		t.Errorf("got %+v, %v after %v", d, err, time.Since(began))
	}
	s.Scaling.TimeLimit = Duration(200 * time.Millisecond)
	began = time.Now()
	if d := scale(t, s); d.Gap <= 0 || d.Gap >= 1 || time.Since(began) > 3*time.Second {
		t.Errorf("gap %v after %v", d.Gap, time.Since(began))
	}
}

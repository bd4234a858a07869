// SPDX-License-Identifier: Apache-2.0

package model

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"regexp"
	"strings"
	"testing"
)

// plain is one service s on nodes n0, n1, … whose pods p0, p1, … have these cpu capacities, pod i on node i.
func plain(cost float64, capacities ...float64) *Snapshot {
	s := NewSnapshot()
	s.Dispatch.Stages = []Stage{StageThroughput, StageBalance}
	v := newService()
	v.Name, v.TaskCost = "s", Quantities{"cpu": cost}
	s.Services = []Service{v}
	for i, c := range capacities {
		node, pod := newNode(), newPod()
		node.Name = fmt.Sprint("n", i)
		pod.Name, pod.Node, pod.Services, pod.Capacity = fmt.Sprint("p", i), node.Name, []string{"s"}, Quantities{"cpu": c}
		s.Nodes, s.Pods = append(s.Nodes, node), append(s.Pods, pod)
	}
	return s
}

func (s *Snapshot) arrive(node int, tasks float64) *Snapshot {
	s.Arrivals = append(s.Arrivals, Arrival{Service: "s", Node: fmt.Sprint("n", node), Tasks: tasks, Last: tasks})
	return s
}

func decide(t *testing.T, s *Snapshot) *DispatchDecision {
	t.Helper()
	if err := s.Validate(); err != nil {
		t.Fatal(err)
	}
	d, err := Dispatch(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// wantSplit compares one ratio, "" being the overall one, with "admitted pod=ratio …".
func wantSplit(t *testing.T, d *DispatchDecision, node, want string) {
	t.Helper()
	for _, r := range d.Ratios {
		if r.Service != "s" || r.Node != node {
			continue
		}
		got := fmt.Sprintf("%.6g", r.Admitted)
		for _, s := range r.Pods {
			got += fmt.Sprintf(" %s=%.6g", s.Pod, s.Ratio)
		}
		if got != want {
			t.Errorf("split at %q: %s, want %s", node, got, want)
		}
		return
	}
	t.Errorf("no split at %q", node)
}

func TestBalancesByCapacity(t *testing.T) {
	d := decide(t, plain(0.01, 4, 1).arrive(0, 100))
	wantSplit(t, d, "n0", "1 p0=0.8 p1=0.2")
	wantSplit(t, d, "", "1 p0=0.8 p1=0.2")
}

func TestLoadOfTasksIsNotCountedTwice(t *testing.T) {
	s := plain(0.01, 1).arrive(0, 95)
	s.Pods[0].Used, s.Pods[0].Tasks = Quantities{"cpu": 0.97}, Quantities{"s": 95}
	if d := decide(t, s); d.Served != 95 || math.Abs(d.MaxUtilisation-0.97) > 1e-9 {
		t.Errorf("served %v at %v, want 95 at 0.97", d.Served, d.MaxUtilisation)
	}
	s.Pods[0].Tasks = nil // then it is base load
	if d := decide(t, s); math.Abs(d.Served-3) > 1e-9 {
		t.Errorf("served %v, want 3", d.Served)
	}
}

func TestNetworkLoadOfTasksIsNotCountedTwice(t *testing.T) {
	s := plain(0.001, 1).arrive(0, 100)
	s.Services[0].TaskCost[NetworkResource] = 10
	s.Nodes[0].Capacity, s.Nodes[0].Used = Quantities{NetworkResource: 1000}, Quantities{NetworkResource: 950}
	if d := decide(t, s); d.Served != 100 {
		t.Errorf("served %v, want 100", d.Served)
	}
}

func TestDrainingAndUnreadyPodsGetNone(t *testing.T) {
	s := plain(0.01, 1, 1, 1).arrive(0, 50)
	s.Pods[0].Draining, s.Pods[1].Ready = true, false
	wantSplit(t, decide(t, s), "n0", "1 p2=1")
	s.Pods[2].Draining = true
	d := decide(t, s)
	wantSplit(t, d, "n0", "0")
	if len(d.Why) != 1 || d.Why[0] != "s: short by 50 of 50 tasks, no pod takes any" {
		t.Errorf("why %q", d.Why)
	}
}

func TestSilentNodesUseTheOverallSplit(t *testing.T) {
	s := plain(0.01, 3, 1).arrive(0, 100).arrive(1, 0)
	wantSplit(t, decide(t, s), "n1", "1 p0=0.75 p1=0.25")
}

func TestSilentServicesAreSplitByRoom(t *testing.T) {
	s := plain(0.01, 3, 1)
	s.Pods[0].Used = Quantities{"cpu": 1}
	d := decide(t, s)
	if math.Abs(d.Ratios[0].Pods[0].Ratio-2.0/3) > 1e-9 {
		t.Errorf("overall %+v", d.Ratios)
	}
}

func TestSilentServicesOfFullPodsHaveASplit(t *testing.T) {
	s := plain(0.01, 1).arrive(0, 100)
	v := newService()
	v.Name, v.TaskCost = "silent", Quantities{"cpu": 0.01}
	s.Services = append(s.Services, v)
	s.Pods[0].Services = []string{"s", "silent"}
	d := decide(t, s)
	if r := d.Ratios[len(d.Ratios)-1]; r.Service != "silent" || r.Admitted != 1 || len(r.Pods) != 1 {
		t.Errorf("got %+v", r)
	}
}

func TestZeroCapacityTakesNone(t *testing.T) {
	wantSplit(t, decide(t, plain(0.01, 0, 1).arrive(0, 10)), "n0", "1 p1=1")
	wantSplit(t, decide(t, plain(0.01, 0).arrive(0, 10)), "n0", "0")
}

func TestTasksWithoutCostSpreadEvenly(t *testing.T) {
	wantSplit(t, decide(t, plain(0, 4, 1, 1, 2).arrive(0, 10)), "n0", "1 p0=0.25 p1=0.25 p2=0.25 p3=0.25")
}

func TestMaxUtilisationKeepsRoom(t *testing.T) {
	s := plain(0.01, 1).arrive(0, 100)
	s.Dispatch.MaxUtilisation = 0.9
	if d := decide(t, s); math.Abs(d.Served-90) > 1e-6 || math.Abs(d.MaxUtilisation-0.9) > 1e-6 {
		t.Errorf("served %v at %v", d.Served, d.MaxUtilisation)
	}
}

func TestShortageIsSharedEqually(t *testing.T) {
	d := decide(t, plain(0.01, 1).arrive(0, 150))
	wantSplit(t, d, "n0", "0.666667 p0=0.666667")
	s := plain(0.01, 1, 1, 1).arrive(0, 300).arrive(1, 200).arrive(2, 100)
	d = decide(t, s)
	for _, node := range []string{"n0", "n1", "n2"} {
		wantSplit(t, d, node, "0.5 p0=0.166667 p1=0.166667 p2=0.166667")
	}
	// n2's network lets 20 of its 100 in: the others share the remaining 280 of 500
	s.Services[0].TaskCost[NetworkResource] = 1
	s.Nodes[2].Capacity = Quantities{NetworkResource: 20}
	d = decide(t, s)
	wantSplit(t, d, "n0", "0.56 p0=0.186667 p1=0.186667 p2=0.186667")
	wantSplit(t, d, "n1", "0.56 p0=0.186667 p1=0.186667 p2=0.186667")
	wantSplit(t, d, "n2", "0.2 p0=0.0666667 p1=0.0666667 p2=0.0666667")
}

func TestOvercommittedNodeLimitsItsPods(t *testing.T) {
	s := plain(0.01, 2, 2, 2).arrive(0, 400)
	s.Pods[1].Node = "n0"
	s.Nodes[0].Capacity, s.Nodes[0].Used = Quantities{"cpu": 1.5}, Quantities{"cpu": 0.5}
	d := decide(t, s)
	if math.Abs(d.Served-300) > 1e-6 { // 1 core for p0 and p1, 2 for p2
		t.Errorf("served %v, want 300", d.Served)
	}
	wantSplit(t, d, "n0", "0.75 p0=0.125 p1=0.125 p2=0.5")
}

func TestLocalPolicyKeepsToItsPods(t *testing.T) {
	s := plain(0.01, 1, 1).arrive(0, 150).arrive(1, 30)
	s.Arrivals[0].Pods = []string{"p0"}
	d := decide(t, s)
	wantSplit(t, d, "n0", "0.666667 p0=0.666667")
	wantSplit(t, d, "n1", "1 p1=1")
}

func TestLocalTrafficStaysUntilTheHeadroom(t *testing.T) {
	s := plain(0.01, 1, 1, 1).arrive(0, 60)
	s.Nodes[0].Zone, s.Nodes[1].Zone, s.Nodes[2].Zone = "a", "a", "b"
	s.Dispatch.Stages = append(s.Dispatch.Stages, StageLocality)
	wantSplit(t, decide(t, s), "n0", "1 p0=1")
	s.Arrivals[0].Tasks = 100 // 70 stay, 30 go to the zone
	wantSplit(t, decide(t, s), "n0", "1 p0=0.7 p1=0.3")
	s.Arrivals[0].Tasks = 200 // the zone is full at 140
	wantSplit(t, decide(t, s), "n0", "1 p0=0.35 p1=0.35 p2=0.3")
	s.Arrivals[0].Tasks = 270 // above the headroom it is balanced
	wantSplit(t, decide(t, s), "n0", "1 p0=0.333333 p1=0.333333 p2=0.333333")
}

func TestUndeclaredCostIsEstimatedOrPrior(t *testing.T) {
	s := plain(0.01, 1, 1).arrive(0, 1)
	s.Services[0].TaskCost = nil
	s.Pods[0].Used, s.Pods[0].Tasks = Quantities{"cpu": 0.5}, Quantities{"s": 10}
	in, err := compile(s)
	if err != nil || math.Abs(in.cost[0]-0.05) > 1e-12 {
		t.Errorf("estimated %v, %v, want 0.05", in.cost, err)
	}
	s.Pods[0].Tasks = nil
	for i, c := range []float64{0.02, 0.04} {
		v := newService()
		v.Name, v.TaskCost = fmt.Sprint("other", i), Quantities{"cpu": c}
		s.Services = append(s.Services, v)
	}
	if in, err = compile(s); err != nil || math.Abs(in.cost[0]-0.03) > 1e-12 {
		t.Errorf("prior %v, %v, want 0.03", in.cost, err)
	}
}

func TestDispatchIsDeterministic(t *testing.T) {
	s := cluster(40, 30, 8, 0.5, 0.5, 1.1)
	var first []byte
	for range 5 {
		var out bytes.Buffer
		d := decide(t, s)
		d.SolveMillis = 0
		if err := (&Decisions{Dispatch: d}).WriteJSON(&out); err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = out.Bytes()
		} else if !bytes.Equal(first, out.Bytes()) {
			t.Fatal("two runs differ")
		}
	}
}

func TestEndedContextIsAnError(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Dispatch(ctx, plain(0.01, 1).arrive(0, 1)); err == nil {
		t.Error("no error")
	}
}

func TestEmptySnapshot(t *testing.T) {
	if d := decide(t, NewSnapshot()); d.Status != StatusOptimal || len(d.Ratios) != 0 {
		t.Errorf("got %+v", d)
	}
}

func TestWhyIsOneLinePerService(t *testing.T) {
	d := decide(t, cluster(10, 10, 5, 1, 0.3, 1.2))
	if len(d.Why) != 10 {
		t.Errorf("%d lines", len(d.Why))
	}
	form := regexp.MustCompile(`^default/service-\d+:http: (fits, fullest pod \S+ at \d\.\d\d of cpu|short by \S+ of \S+ tasks, .+ full)$`)
	for _, line := range d.Why {
		if !form.MatchString(line) {
			t.Errorf("line %q", line)
		}
	}
	if !strings.Contains(d.Why[0], "short") {
		t.Errorf("first line %q", d.Why[0])
	}
}

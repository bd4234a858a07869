// SPDX-License-Identifier: Apache-2.0

package model

import (
	"context"
	"encoding/json"
	"math"
	"slices"
	"testing"

	"github.com/edgeweir/weir/optimizer/highs"
	"pgregory.net/rapid"
)

// outcome is a decision read back against the dense form.
type outcome struct {
	y        []float64 // by dense column
	served   float64
	worst    float64            // largest violation of a row
	levels   map[string]float64 // by pod
	problems []string
}

func readBack(d *dense, decision *DispatchDecision) outcome {
	o := outcome{y: make([]float64, len(d.columns)), levels: make(map[string]float64)}
	type key struct{ service, node string }
	ratios := make(map[key]Ratio)
	for _, r := range decision.Ratios {
		if _, twice := ratios[key{r.Service, r.Node}]; twice {
			o.problems = append(o.problems, "twice: "+r.Service+" at "+r.Node)
		}
		ratios[key{r.Service, r.Node}] = r
		sum := 0.0
		for _, s := range r.Pods {
			sum += s.Ratio
			if s.Ratio <= 0 {
				o.problems = append(o.problems, "not positive: "+r.Service+" to "+s.Pod)
			}
		}
		if math.Abs(sum-r.Admitted) > 1e-9 {
			o.problems = append(o.problems, "sum differs from admitted: "+r.Service+" at "+r.Node)
		}
	}
	for i, a := range d.s.Arrivals {
		r, ok := ratios[key{a.Service, a.Node}]
		if !ok {
			o.problems = append(o.problems, "missing: "+a.Service+" at "+a.Node)
		}
		known := 0
		for j, c := range d.columns {
			if c.arrival != i {
				continue
			}
			for _, s := range r.Pods {
				if s.Pod == d.s.Pods[c.pod].Name {
					o.y[j] = s.Ratio
					known++
				}
			}
			o.served += o.y[j] * c.tasks
		}
		if known != len(r.Pods) {
			o.problems = append(o.problems, "a pod that may not: "+a.Service+" at "+a.Node)
		}
	}
	for _, r := range d.rows {
		v := 0.0
		for j, c := range r.coef {
			v += c * o.y[j]
		}
		o.worst = math.Max(o.worst, (v-r.limit)/math.Max(1, r.limit))
	}
	for _, l := range d.levels {
		v := l.base
		for j, c := range l.coef {
			v += c * o.y[j]
		}
		o.levels[l.pod] = math.Max(o.levels[l.pod], v)
	}
	return o
}

func TestDispatchEqualsDense(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := draw(t)
		showOnFailure(t, s)
		if err := s.Validate(); err != nil {
			t.Fatalf("drawn snapshot: %v", err)
		}
		decision, err := Dispatch(context.Background(), s)
		if err != nil {
			t.Fatal(err)
		}
		d := newDense(s)
		o := readBack(d, decision)
		if len(o.problems) > 0 {
			t.Fatalf("%v", o.problems)
		}
		if o.worst > 1e-6 {
			t.Fatalf("violated by %v", o.worst)
		}
		best := d.throughput()
		near := func(a, b float64) bool { return math.Abs(a-b) <= 1e-6*math.Max(1, b) }
		if !near(o.served, best) || !near(decision.Served, best) || !near(decision.Bound, best) {
			t.Fatalf("served %v, says %v of bound %v, dense optimum %v", o.served, decision.Served, decision.Bound, best)
		}
		want := descending(d.lexicographic(best))
		got := descending(o.levels)
		for i := range want {
			if math.Abs(got[i]-want[i]) > 1e-5*math.Max(1, want[i]) {
				t.Fatalf("levels %v, lexicographic min-max %v", got, want)
			}
		}
	})
}

func TestMaxMinEqualsDense(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := draw(t)
		showOnFailure(t, s)
		s.Dispatch.Shortage = ShortageMaxMin
		decision, err := Dispatch(context.Background(), s)
		if err != nil {
			t.Fatal(err)
		}
		d := newDense(s)
		o := readBack(d, decision)
		if len(o.problems) > 0 || o.worst > 1e-6 {
			t.Fatalf("%v, violated by %v", o.problems, o.worst)
		}
		if best := d.throughput(); math.Abs(decision.Bound-best) > 1e-6*math.Max(1, best) {
			t.Fatalf("bound %v, dense optimum %v", decision.Bound, best)
		}
		want := d.maxmin()
		got, total := make(map[string]float64), make(map[string]float64)
		for i, share := range o.admitted(d) {
			a := s.Arrivals[i]
			got[a.Service] += share * a.Tasks
			total[a.Service] += a.Tasks
		}
		for name, fraction := range want {
			if math.Abs(got[name]/total[name]-fraction) > 1e-6 {
				t.Fatalf("%s served %v, max-min %v", name, got[name]/total[name], fraction)
			}
		}
		d.serve(want)
		least, levels := descending(d.lexicographic(0)), descending(o.levels)
		for i := range least {
			if math.Abs(levels[i]-least[i]) > 1e-4*math.Max(1, least[i]) {
				t.Fatalf("levels %v, lexicographic min-max %v", levels, least)
			}
		}
	})
}

// showOnFailure logs the drawn snapshot, which replays with `optimizer solve`.
func showOnFailure(t *rapid.T, s *Snapshot) {
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		text, err := json.Marshal(s)
		t.Logf("snapshot: %s, %v", text, err)
	})
}

func TestLocalityEqualsDense(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := draw(t)
		showOnFailure(t, s)
		s.Dispatch.Tiers = rapid.SampledFrom([]Tiers{{0, 1, 4}, {0, 1, 4}, {1, 1, 4}, {0, 4, 4}, {0, 0, 0}, {2, 3, 4}}).Draw(t, "tiers")
		s.Dispatch.Headroom = rapid.SampledFrom([]float64{0, 0.5, 0.7, 1}).Draw(t, "headroom")
		if rapid.Bool().Draw(t, "a node without a zone") {
			s.Nodes[0].Zone = ""
		}
		solve := func(stages ...Stage) *DispatchDecision {
			s.Dispatch.Stages = stages
			decision, err := Dispatch(context.Background(), s)
			if err != nil {
				t.Fatal(err)
			}
			return decision
		}
		d := newDense(s)
		before := readBack(d, solve(StageThroughput, StageBalance))
		after := readBack(d, solve(StageThroughput, StageBalance, StageLocality))
		if len(after.problems) > 0 || after.worst > 1e-6 {
			t.Fatalf("%v, violated by %v", after.problems, after.worst)
		}
		was, is := before.admitted(d), after.admitted(d)
		for i := range was {
			if s.Arrivals[i].Tasks > 0 && math.Abs(was[i]-is[i]) > 1e-6 {
				t.Fatalf("arrival %d: admitted %v, then %v", i, was[i], is[i])
			}
		}
		for pod, level := range after.levels {
			if most := math.Max(s.Dispatch.Headroom, before.levels[pod]); level > most+1e-5 {
				t.Fatalf("pod %s at %v, may be at %v", pod, level, most)
			}
		}
		d.pin(was, before.levels)
		least, got := d.cheapest(), 0.0
		for j, c := range d.cost() {
			got += c * after.y[j]
		}
		if math.Abs(got-least) > 1e-4*math.Max(1, least) {
			t.Fatalf("cost %v, least %v", got, least)
		}
		d.extra = append(d.extra, rangeRow{d.cost(), -highs.Inf, least + 1e-7*math.Max(1, least)})
		want, levels := descending(d.lexicographic(0)), descending(after.levels)
		for i := range want {
			if math.Abs(levels[i]-want[i]) > 1e-4*math.Max(1, want[i]) {
				t.Fatalf("levels %v, lexicographic min-max %v", levels, want)
			}
		}
	})
}

// admitted is the share of each arrival that the outcome serves.
func (o *outcome) admitted(d *dense) []float64 {
	out := make([]float64, len(d.s.Arrivals))
	for j, c := range d.columns {
		out[c.arrival] += o.y[j]
	}
	return out
}

func descending(levels map[string]float64) []float64 {
	out := make([]float64, 0, len(levels))
	for _, v := range levels {
		out = append(out, v)
	}
	slices.Sort(out)
	slices.Reverse(out)
	return out
}

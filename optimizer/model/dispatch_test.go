// SPDX-License-Identifier: Apache-2.0

package model

import (
	"context"
	"math"
	"slices"
	"testing"

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

func descending(levels map[string]float64) []float64 {
	out := make([]float64, 0, len(levels))
	for _, v := range levels {
		out = append(out, v)
	}
	slices.Sort(out)
	slices.Reverse(out)
	return out
}

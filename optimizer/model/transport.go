// SPDX-License-Identifier: Apache-2.0

package model

import (
	"context"
	"fmt"
	"math"

	"github.com/edgeweir/weir/optimizer/highs"
)

// transport is stage 3 of classes that share pods, as two LPs over f_ogp, the tasks of class c from origin o at
// pod p. The first minimises Σ tier · f with every origin served; the second levels the pods among the points
// that serve all of it at that cost.
func (in *instance) transport(ctx context.Context, group []*local, load []float64) error {
	t := &transportLP{in: in, load: load}
	for _, w := range group {
		t.addOrigins(w)
	}
	if len(t.arcs) == 0 {
		return nil
	}
	t.addPods()
	cost, reduced, err := t.cheapest(ctx)
	if err != nil {
		return err
	}
	x, err := t.levelled(ctx, cost, reduced)
	if err != nil {
		return err
	}
	t.take(x)
	return nil
}

// arc is one column: tasks of an origin at one pod, 0 ≤ x ≤ 1 in units of the origin's tasks.
type arc struct {
	origin  *origin
	class   int32
	demand  int32 // its origin's row
	pod     int32
	at      int32 // position in the class's pods
	cost    float64
	service int32
}

type transportLP struct {
	in      *instance
	load    []float64
	arcs    []arc
	demands []*origin
	owners  []int32 // by demand: class
	byPod   map[int32][]int32
	pods    []int32
	rows    []transportRow
}

// transportRow is Σ coef·f ≤ most in a resource's unit; a levelled one takes part in the second LP as a unit.
type transportRow struct {
	terms []term
	most  float64
	pod   int32
	limit *vessel
}

func (t *transportLP) addOrigins(w *local) {
	in, cl := t.in, &t.in.classes[w.class]
	for i := range w.origins {
		o := &w.origins[i]
		if o.tasks <= tinyShare*cl.total {
			continue
		}
		for j, p := range cl.pods {
			if w.limits[j].most <= tinyShare*cl.total {
				continue
			}
			t.arcs = append(t.arcs, arc{origin: o, class: w.class, demand: int32(len(t.demands)), pod: p, at: int32(j),
				cost: in.tier(o, in.podNode[p]), service: cl.service})
		}
		t.demands, t.owners = append(t.demands, o), append(t.owners, w.class)
	}
}

// addPods makes the rows of pods and CPUs.
func (t *transportLP) addPods() {
	in, kk := t.in, t.in.resources
	t.byPod = make(map[int32][]int32)
	for j := range t.arcs {
		p := t.arcs[j].pod
		if t.byPod[p] == nil {
			t.pods = append(t.pods, p)
		}
		t.byPod[p] = append(t.byPod[p], int32(j))
	}
	cpu := make(map[int32][]term)
	var cpuNodes []int32
	for _, p := range t.pods {
		level, _ := in.utilisation(p, t.load)
		raised := math.Max(in.s.Dispatch.Headroom, level)
		for k := range kk {
			terms := t.priced(t.byPod[p], k)
			i := int(p)*kk + k
			if n := in.podNode[p]; k == in.cpu && len(terms) > 0 && !math.IsInf(in.cpuRoom[n], 1) {
				if cpu[n] == nil {
					cpuNodes = append(cpuNodes, n)
				}
				cpu[n] = append(cpu[n], terms...)
			}
			if len(terms) > 0 && !math.IsInf(in.room[i], 1) {
				t.rows = append(t.rows, t.podRow(p, k, terms, raised))
			}
		}
	}
	for _, n := range cpuNodes {
		used := 0.0
		for p := range in.s.Pods {
			if in.podNode[p] == n {
				used += t.load[p*kk+in.cpu]
			}
		}
		t.rows = append(t.rows, transportRow{terms: cpu[n], most: math.Max(in.cpuRoom[n], used), pod: -1})
	}
}

// podRow limits a pod's resource to what it has at a raised level. What stage 2 did stays possible, to the
// last bit.
func (t *transportLP) podRow(p int32, k int, terms []term, raised float64) transportRow {
	in := t.in
	i := int(p)*in.resources + k
	row := transportRow{terms: terms, most: in.room[i], pod: p}
	if in.levelled(i, k) {
		v := &vessel{floor: in.floor[p], most: in.room[i], lines: []line{{in.size[i], in.base[i] / in.size[i]}}}
		v.most = math.Max(t.load[i], v.at(raised))
		row.most, row.limit = v.most, v
	}
	row.most = math.Max(row.most, t.load[i])
	return row
}

func (t *transportLP) priced(arcs []int32, k int) []term {
	var out []term
	for _, j := range arcs {
		if c := t.in.cost[int(t.arcs[j].service)*t.in.resources+k]; c > 0 {
			out = append(out, term{j, c})
		}
	}
	return out
}

// problem lays out arcs and rows; every row is scaled by its reach. demandLower is 1 where every origin must be
// served.
func (t *transportLP) problem(sense highs.Sense, demandLower float64) *highs.Problem {
	q := &highs.Problem{Sense: sense, Cost: make([]float64, len(t.arcs)), Matrix: highs.Matrix{Start: []int32{0}}}
	for range t.arcs {
		q.Lower, q.Upper = append(q.Lower, 0), append(q.Upper, inf) // the origin's row bounds it
	}
	j := 0
	for i := range t.demands {
		for ; j < len(t.arcs) && t.arcs[j].demand == int32(i); j++ {
			q.Matrix.Index, q.Matrix.Value = append(q.Matrix.Index, int32(j)), append(q.Matrix.Value, 1)
		}
		t.endRow(q, demandLower, 1)
	}
	for i := range t.rows {
		r := &t.rows[i]
		scale := t.scale(r)
		for _, m := range r.terms {
			q.Matrix.Index = append(q.Matrix.Index, m.column)
			q.Matrix.Value = append(q.Matrix.Value, m.coef*t.arcs[m.column].origin.tasks/scale)
		}
		t.endRow(q, -inf, r.most/scale)
	}
	return q
}

// scale is the largest entry of the row.
func (t *transportLP) scale(r *transportRow) float64 {
	v := 0.0
	for _, m := range r.terms {
		v = math.Max(v, m.coef*t.arcs[m.column].origin.tasks)
	}
	return v
}

func (t *transportLP) endRow(q *highs.Problem, lower, upper float64) {
	q.Matrix.Start = append(q.Matrix.Start, int32(len(q.Matrix.Index)))
	q.RowLower, q.RowUpper = append(q.RowLower, lower), append(q.RowUpper, upper)
}

// largest is the largest origin's tasks, the unit of both objectives.
func (t *transportLP) largest() float64 {
	v := 0.0
	for _, o := range t.demands {
		v = math.Max(v, o.tasks)
	}
	return v
}

// cheapest is the least cost of serving all origins, in units, and the arcs' reduced costs per task.
func (t *transportLP) cheapest(ctx context.Context) (float64, []float64, error) {
	const slack = 1e-9 // stage 2 met its rows to the solver's tolerance; all of it must stay servable
	q, per := t.problem(highs.Minimize, 1-slack), t.largest()
	for j := range t.arcs {
		q.Cost[j] = t.arcs[j].cost * t.arcs[j].origin.tasks / per
	}
	s, err := highs.Solve(ctx, q, highs.Options{Tolerance: solverTolerance})
	if err != nil {
		return 0, nil, fmt.Errorf("least cost: %w", err)
	}
	if s.Status != highs.Optimal {
		return 0, nil, fmt.Errorf("least cost: solver ended with %v: %w", s.Status, ErrUnsolved)
	}
	reduced := make([]float64, len(t.arcs))
	for j := range t.arcs {
		reduced[j] = s.ReducedCosts[j] * per / t.arcs[j].origin.tasks
	}
	return s.Objective, reduced, nil
}

// levelled levels the pods under the least cost.
func (t *transportLP) levelled(ctx context.Context, cost float64, reduced []float64) ([]float64, error) {
	q, per := t.problem(highs.Maximize, -inf), t.largest()
	v := leveller{}
	tiers := &t.in.s.Dispatch.Tiers
	dearest := math.Max(1e-300, tiers.Else)
	for j := range t.arcs {
		a := &t.arcs[j]
		q.Cost[j] = a.origin.tasks / per
		if reduced[j] > fixTolerance*dearest {
			q.Upper[j] = 0
		}
	}
	for _, o := range t.demands {
		v.target += o.tasks / per
	}
	most := v.target * dearest
	for j := range t.arcs {
		if w := t.arcs[j].cost * t.arcs[j].origin.tasks / per / most; w > 0 {
			q.Matrix.Index, q.Matrix.Value = append(q.Matrix.Index, int32(j)), append(q.Matrix.Value, w)
		}
	}
	t.endRow(q, -inf, math.Max(0, cost/most)+10*reachTolerance)
	for i := range t.rows {
		if r := &t.rows[i]; r.limit != nil {
			worth := 0.0
			for _, m := range r.terms {
				worth = math.Max(worth, t.arcs[m.column].origin.tasks/per)
			}
			v.units = append(v.units, unit{column: -1, row: len(t.demands) + i, owner: r.pod, limit: vessels{*r.limit},
				scale: t.scale(r), worth: worth, now: -1})
		}
	}
	m, err := highs.NewModel(q)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	v.model = m
	return v.run(ctx)
}

// take gives the origins their splits.
func (t *transportLP) take(x []float64) {
	tasks := make(map[*origin][]float64)
	for j := range t.arcs {
		a := &t.arcs[j]
		if tasks[a.origin] == nil {
			tasks[a.origin] = make([]float64, len(t.in.classes[a.class].pods))
		}
		tasks[a.origin][a.at] = math.Max(0, x[j]) * a.origin.tasks
	}
	for i, o := range t.demands {
		o.split = newSplit(t.in.classes[t.owners[i]].pods, tasks[o])
	}
}

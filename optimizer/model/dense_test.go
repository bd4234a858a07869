// SPDX-License-Identifier: Apache-2.0

package model

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/edgeweir/weir/optimizer/highs"
)

// dense is the dispatch LP as the design writes it, one variable per (l, n, p): the reference for the collapsed
// form. It reads the snapshot by itself and shares no code with the product.
type dense struct {
	s       *Snapshot
	columns []denseColumn
	rows    []denseRow
	levels  []denseRow // base + load, over A: by pod and rate resource
	floor   map[string]float64
	extra   []rangeRow
}

// rangeRow is lower ≤ Σ coef·y ≤ upper.
type rangeRow struct {
	coef         map[int]float64
	lower, upper float64
}

type denseColumn struct {
	arrival, pod int
	tasks        float64
}

// denseRow is Σ coef·y ≤ limit.
type denseRow struct {
	pod   string
	coef  map[int]float64
	base  float64
	limit float64
}

func newDense(s *Snapshot) *dense {
	d := &dense{s: s, floor: make(map[string]float64)}
	for i, a := range s.Arrivals {
		row := denseRow{coef: map[int]float64{}, limit: 1}
		for p := range s.Pods {
			pod := &s.Pods[p]
			if !pod.Ready || pod.Draining || !slices.Contains(pod.Services, a.Service) ||
				(a.Pods != nil && !slices.Contains(a.Pods, pod.Name)) {
				continue
			}
			row.coef[len(d.columns)] = 1
			d.columns = append(d.columns, denseColumn{i, p, a.Tasks})
		}
		d.rows = append(d.rows, row)
	}
	for p := range s.Pods {
		d.addPod(p)
	}
	for n := range s.Nodes {
		d.addNode(&s.Nodes[n])
	}
	return d
}

func (d *dense) service(arrival int) *Service {
	for l := range d.s.Services {
		if d.s.Services[l].Name == d.s.Arrivals[arrival].Service {
			return &d.s.Services[l]
		}
	}
	panic("unknown service")
}

func (d *dense) tasksCost(p *Pod, resource string) float64 {
	sum := 0.0
	for l := range d.s.Services {
		sum += d.s.Services[l].TaskCost[resource] * p.Tasks[d.s.Services[l].Name]
	}
	return sum
}

func (d *dense) addPod(p int) {
	pod := &d.s.Pods[p]
	for _, k := range d.s.Resources {
		a, limited := pod.Capacity[k]
		if !limited {
			continue
		}
		base := math.Max(0, pod.Used[k]-d.tasksCost(pod, k))
		row := denseRow{pod: pod.Name, coef: map[int]float64{}, limit: math.Max(0, d.s.Dispatch.MaxUtilisation*a-base)}
		for j, c := range d.columns {
			if c.pod == p {
				row.coef[j] = d.service(c.arrival).TaskCost[k] * c.tasks
			}
		}
		d.rows = append(d.rows, row)
		if a > 0 && !slices.Contains(d.s.Stock, k) {
			level := denseRow{pod: pod.Name, coef: map[int]float64{}, base: base / a}
			for j, v := range row.coef {
				level.coef[j] = v / a
			}
			d.levels = append(d.levels, level)
			d.floor[pod.Name] = math.Max(d.floor[pod.Name], base/a)
		}
	}
}

func (d *dense) addNode(n *Node) {
	if c, ok := n.Capacity[NetworkResource]; ok {
		row := denseRow{coef: map[int]float64{}}
		used := n.Used[NetworkResource]
		for i := range d.s.Arrivals {
			if d.s.Arrivals[i].Node == n.Name {
				used -= d.service(i).TaskCost[NetworkResource] * d.s.Arrivals[i].Last
			}
		}
		row.limit = math.Max(0, c-math.Max(0, used))
		for j, col := range d.columns {
			if d.s.Arrivals[col.arrival].Node == n.Name {
				row.coef[j] = d.service(col.arrival).TaskCost[NetworkResource] * col.tasks
			}
		}
		d.rows = append(d.rows, row)
	}
	c, ok := n.Capacity["cpu"]
	limits, used := 0.0, n.Used["cpu"]
	for p := range d.s.Pods {
		if d.s.Pods[p].Node == n.Name {
			limits += d.s.Pods[p].Capacity["cpu"]
			used -= d.tasksCost(&d.s.Pods[p], "cpu")
		}
	}
	if ok && limits > c {
		row := denseRow{coef: map[int]float64{}, limit: math.Max(0, c-math.Max(0, used))}
		for j, col := range d.columns {
			if d.s.Pods[col.pod].Node == n.Name {
				row.coef[j] = d.service(col.arrival).TaskCost["cpu"] * col.tasks
			}
		}
		d.rows = append(d.rows, row)
	}
}

// problem is the throughput LP; extra columns are appended with no cost.
func (d *dense) problem(extra int) *highs.Problem {
	p := &highs.Problem{Sense: highs.Maximize, Matrix: highs.Matrix{Start: []int32{0}}}
	for _, c := range d.columns {
		p.Cost, p.Lower, p.Upper = append(p.Cost, c.tasks), append(p.Lower, 0), append(p.Upper, 1)
	}
	for range extra {
		p.Cost, p.Lower, p.Upper = append(p.Cost, 0), append(p.Lower, 0), append(p.Upper, highs.Inf)
	}
	for _, r := range d.rows {
		appendRow(p, r.coef, -highs.Inf, r.limit)
	}
	for _, r := range d.extra {
		appendRow(p, r.coef, r.lower, r.upper)
	}
	return p
}

// pin fixes what every arrival is admitted and lets pods rise to max(headroom, their level): stage 3's frame.
func (d *dense) pin(admitted []float64, levels map[string]float64) {
	const slack = 1e-7
	rows := make([]map[int]float64, len(d.s.Arrivals))
	for i := range rows {
		rows[i] = make(map[int]float64)
	}
	for j, c := range d.columns {
		rows[c.arrival][j] = 1
	}
	for i, row := range rows {
		if d.s.Arrivals[i].Tasks > 0 {
			d.extra = append(d.extra, rangeRow{row, admitted[i] - slack, admitted[i]})
		}
	}
	for i := range d.rows { // what stage 2 did is possible
		d.rows[i].limit += slack * math.Max(1, d.rows[i].limit)
	}
	for _, l := range d.levels {
		most := math.Max(d.s.Dispatch.Headroom, levels[l.pod])
		d.extra = append(d.extra, rangeRow{l.coef, -highs.Inf, most - l.base + slack})
	}
}

// cost is Σ tier · tasks by column.
func (d *dense) cost() map[int]float64 {
	zone := make(map[string]string)
	for _, n := range d.s.Nodes {
		zone[n.Name] = n.Zone
	}
	out, tiers := make(map[int]float64), d.s.Dispatch.Tiers
	for j, c := range d.columns {
		from, to := d.s.Arrivals[c.arrival].Node, d.s.Pods[c.pod].Node
		switch {
		case from == to:
			out[j] = tiers.Node * c.tasks
		case zone[from] != "" && zone[from] == zone[to]:
			out[j] = tiers.Zone * c.tasks
		default:
			out[j] = tiers.Else * c.tasks
		}
	}
	return out
}

// cheapest is the least cost in stage 3's frame.
func (d *dense) cheapest() float64 {
	p := d.problem(0)
	p.Sense, p.Cost = highs.Minimize, make([]float64, len(d.columns))
	for j, c := range d.cost() {
		p.Cost[j] = c
	}
	return mustSolve(p).Objective
}

func appendRow(p *highs.Problem, coef map[int]float64, lower, upper float64) {
	for j, v := range coef {
		p.Matrix.Index, p.Matrix.Value = append(p.Matrix.Index, int32(j)), append(p.Matrix.Value, v)
	}
	p.Matrix.Start = append(p.Matrix.Start, int32(len(p.Matrix.Index)))
	p.RowLower, p.RowUpper = append(p.RowLower, lower), append(p.RowUpper, upper)
}

func mustSolve(p *highs.Problem) *highs.Solution {
	s, err := highs.Solve(context.Background(), p, highs.Options{Tolerance: 1e-9})
	if err != nil || s.Status != highs.Optimal {
		panic(fmt.Sprintf("reference: %v, %v", s, err))
	}
	return s
}

func (d *dense) throughput() float64 { return mustSolve(d.problem(0)).Objective }

// lexicographic is every pod's level at the lexicographic min-max over the throughput optima: minimise the
// highest level t of the open pods, close those that can't be below t, repeat.
func (d *dense) lexicographic(throughput float64) map[string]float64 {
	closed := make(map[string]float64)
	for len(closed) < len(d.floor) {
		p, _ := d.levelProblem(closed, throughput)
		t := len(d.columns)
		p.Sense, p.Cost = highs.Minimize, make([]float64, t+1)
		p.Cost[t] = 1
		least := mustSolve(p).X[t]
		before := len(closed)
		for pod := range d.floor {
			if _, ok := closed[pod]; !ok && d.leastLevel(pod, closed, least, throughput) > least-1e-6 {
				closed[pod] = least
			}
		}
		if len(closed) == before {
			panic("reference: no pod closes")
		}
	}
	return closed
}

// levelProblem bounds the closed pods by their level and the open ones by the extra column t.
func (d *dense) levelProblem(closed map[string]float64, throughput float64) (*highs.Problem, int) {
	p := d.problem(1)
	t := len(d.columns)
	served := make(map[int]float64)
	for j, c := range d.columns {
		served[j] = c.tasks
	}
	appendRow(p, served, throughput*(1-1e-9)-1e-9, highs.Inf)
	for _, l := range d.levels {
		coef := make(map[int]float64)
		for j, v := range l.coef {
			coef[j] = v
		}
		if at, ok := closed[l.pod]; ok {
			appendRow(p, coef, -highs.Inf, math.Max(0, at-l.base)+1e-9)
			continue
		}
		coef[t] = -1
		appendRow(p, coef, -highs.Inf, -l.base)
	}
	return p, t
}

// leastLevel is the lowest level of pod while the other open pods stay at or below t.
func (d *dense) leastLevel(pod string, closed map[string]float64, t, throughput float64) float64 {
	others := make(map[string]float64)
	for name, at := range closed {
		others[name] = at
	}
	for name := range d.floor {
		if _, ok := others[name]; !ok && name != pod {
			others[name] = t
		}
	}
	p, column := d.levelProblem(others, throughput)
	p.Sense, p.Cost = highs.Minimize, make([]float64, column+1)
	p.Cost[column] = 1
	return mustSolve(p).X[column]
}

// maxmin is the lexicographic max-min of the services' served fractions, of those with demand.
func (d *dense) maxmin() map[string]float64 {
	total, terms := make(map[string]float64), make(map[string]map[int]float64)
	for _, a := range d.s.Arrivals {
		total[a.Service] += a.Tasks
	}
	for j, c := range d.columns {
		name := d.s.Arrivals[c.arrival].Service
		if terms[name] == nil {
			terms[name] = make(map[int]float64)
		}
		terms[name][j] = c.tasks
	}
	maximise := func(open func(string) bool, closed map[string]float64, floor float64) float64 {
		p := d.problem(1)
		phi := len(d.columns)
		p.Cost = make([]float64, phi+1)
		p.Cost[phi], p.Upper[phi] = 1, 1
		for name, sum := range total {
			if sum == 0 {
				continue
			}
			coef := map[int]float64{}
			for j, v := range terms[name] {
				coef[j] = v / sum
			}
			switch at, ok := closed[name]; {
			case ok:
				appendRow(p, coef, at-1e-9, highs.Inf)
			case open(name):
				coef[phi] = -1
				appendRow(p, coef, 0, highs.Inf)
			default:
				appendRow(p, coef, floor-1e-9, highs.Inf)
			}
		}
		return mustSolve(p).X[phi]
	}
	closed := make(map[string]float64)
	for name, sum := range total {
		if sum == 0 {
			delete(total, name)
		}
	}
	for len(closed) < len(total) {
		phi := maximise(func(string) bool { return true }, closed, 0)
		next := make(map[string]float64)
		for name := range total {
			if _, ok := closed[name]; !ok && maximise(func(n string) bool { return n == name }, closed, phi) < phi+1e-6 {
				next[name] = phi
			}
		}
		for name, v := range next {
			closed[name] = v
		}
	}
	return closed
}

// serve pins the services' served fractions.
func (d *dense) serve(fractions map[string]float64) {
	for name, fraction := range fractions {
		coef, total := make(map[int]float64), 0.0
		for _, a := range d.s.Arrivals {
			if a.Service == name {
				total += a.Tasks
			}
		}
		for j, c := range d.columns {
			if d.s.Arrivals[c.arrival].Service == name {
				coef[j] = c.tasks / total
			}
		}
		d.extra = append(d.extra, rangeRow{coef, fraction - 1e-7, fraction})
	}
}

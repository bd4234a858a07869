// SPDX-License-Identifier: Apache-2.0

package model

import (
	"context"
	"fmt"
	"math"

	"github.com/edgeweir/weir/optimizer/highs"
)

// wholeTolerance: a class served up to this share of its demand, which is solver noise, is served whole.
const wholeTolerance = 1e-8

// admit turns a component's columns into tasks: what each arrival is admitted and what each pod gets. A
// shortage is shared equally by the arrivals of a class, unless the network of an arrival's own node allows
// less; among networks that several classes share, the largest admitted shares are lowered first.
func (in *instance) admit(ctx context.Context, k *component, balanced bool) error {
	served := in.pour(k)
	var short []shortClass
	inflows := k.inflows()
	for i, c := range k.classes {
		cl := &in.classes[c]
		share := math.Min(1, served[i]/cl.total)
		for _, a := range cl.members {
			in.arrivals[a].admitted = share * in.arrivals[a].tasks
		}
		if share < 1 && len(cl.bound) > 0 {
			short = append(short, shortClass{class: c, served: served[i], inflows: inflows[i]})
		}
	}
	if len(short) == 0 || in.networksHold(k) {
		return nil
	}
	if !balanced {
		k.free = make([]bool, len(k.columns)) // stage 1 alone: as the LP left it
	}
	for i := range short {
		in.admitFixed(k, &short[i])
	}
	for _, group := range in.sharers(k, short) {
		if err := in.share(ctx, k, group); err != nil {
			return fmt.Errorf("admitted shares: %w", err)
		}
	}
	return nil
}

// shortClass is a class that is not served whole and has arrivals at networks that bind.
type shortClass struct {
	class   int32
	served  float64
	inflows []int32 // its in-columns
	free    []int32 // those of them that not all throughput optima give the same value
}

// inflows lists, by position in k.classes, the class's in-columns.
func (k *component) inflows() [][]int32 {
	at := make(map[int32]int, len(k.classes))
	for i, c := range k.classes {
		at[c] = i
	}
	out := make([][]int32, len(k.classes))
	for j := range k.columns {
		if c := &k.columns[j]; c.in() {
			out[at[c.class]] = append(out[at[c.class]], int32(j))
		}
	}
	return out
}

// admitFixed gives the fixed in-columns of a short class their value and takes it from what is left to share.
func (in *instance) admitFixed(k *component, s *shortClass) {
	cl := &in.classes[s.class]
	for _, a := range cl.members {
		in.arrivals[a].admitted = 0
	}
	for _, j := range s.inflows {
		if k.free[j] {
			s.free = append(s.free, j)
			continue
		}
		in.setAdmitted(&k.columns[j], k.columns[j].value)
		s.served -= k.columns[j].value
	}
	s.served = math.Max(0, s.served)
}

// setAdmitted gives the arrivals behind an in-column so many tasks together.
func (in *instance) setAdmitted(c *column, tasks float64) {
	if c.kind == boundColumn {
		in.arrivals[c.at].admitted = tasks
		return
	}
	cl := &in.classes[c.class]
	for _, a := range cl.members {
		if arr := &in.arrivals[a]; !in.bound(int(c.class), a) {
			arr.admitted = arr.tasks * tasks / cl.pool
		}
	}
}

// asked is what the arrivals behind an in-column ask for.
func (in *instance) asked(c *column) float64 {
	if c.kind == boundColumn {
		return in.arrivals[c.at].tasks
	}
	return in.classes[c.class].pool
}

// sharers groups the short classes that share a network through free columns.
func (in *instance) sharers(k *component, short []shortClass) [][]shortClass {
	sets, atNode := newDisjoint(len(short)), make(map[int32]int32)
	for i := range short {
		for _, j := range short[i].free {
			if c := &k.columns[j]; c.kind == boundColumn {
				n := in.arrivals[c.at].node
				if first, ok := atNode[n]; ok {
					sets.join(first, int32(i))
				} else {
					atNode[n] = int32(i)
				}
			}
		}
	}
	byRoot := make(map[int32]int)
	var out [][]shortClass
	for i := range short {
		if len(short[i].free) == 0 {
			continue
		}
		root := sets.find(int32(i))
		if _, ok := byRoot[root]; !ok {
			byRoot[root] = len(out)
			out = append(out, nil)
		}
		out[byRoot[root]] = append(out[byRoot[root]], short[i])
	}
	return out
}

// pour fills the classes' pods from the columns and returns what each class is served.
func (in *instance) pour(k *component) []float64 {
	out := make(map[int32]float64, len(k.classes))
	alone := make(map[int32]float64)
	for j := range k.columns {
		c := &k.columns[j]
		switch c.kind {
		case aloneColumn:
			alone[c.class] = c.value
		case podColumn:
			in.classes[c.class].flow[c.at] = c.value
		}
		if !c.in() {
			out[c.class] += c.value
		}
	}
	served := make([]float64, len(k.classes))
	for i, c := range k.classes {
		cl := &in.classes[c]
		served[i] = math.Min(out[c], cl.total)
		scale := 1.0
		if served[i] >= cl.total*(1-wholeTolerance) && served[i] > 0 {
			scale = cl.total / out[c]
			served[i] = cl.total
		}
		for _, j := range cl.shared {
			cl.flow[j] *= scale
		}
		in.pourAlone(c, alone[c]*scale)
	}
	return served
}

// pourAlone water-fills the pods that only c uses.
func (in *instance) pourAlone(c int32, total float64) {
	cl := &in.classes[c]
	flow := make([]float64, len(cl.alone))
	capped(in.aloneVessels(c), cl.total).fill(total, flow)
	for i, j := range cl.alone {
		cl.flow[j] = flow[i]
	}
}

// networksHold says whether the admitted tasks fit every binding network of the component.
func (in *instance) networksHold(k *component) bool {
	load := make(map[int32]float64)
	for _, c := range k.classes {
		for _, a := range in.classes[c].bound {
			load[in.arrivals[a].node] += in.netCost[in.classes[c].service] * in.arrivals[a].admitted
		}
	}
	for n, v := range load {
		if v > in.netRoom[n]*(1+reachTolerance) {
			return false
		}
	}
	return true
}

// share finds the admitted tasks of a group's free in-columns, whose sums by class are given, under the
// networks: equal shares where they hold, else levelled by an LP.
func (in *instance) share(ctx context.Context, k *component, group []shortClass) error {
	left := in.netLeft(k, group)
	p := &shareLP{in: in, byNode: make(map[int32][]term),
		problem: highs.Problem{Sense: highs.Maximize, Matrix: highs.Matrix{Start: []int32{0}}}}
	for i := range group {
		p.addClass(k, &group[i])
	}
	fits := true
	for _, n := range k.nodes {
		if p.addNode(n, math.Max(0, left[n])) {
			fits = false
		}
	}
	x := p.even
	if !fits {
		var err error
		if x, err = p.solve(ctx); err != nil {
			return err
		}
	}
	j := 0
	for i := range group {
		j = in.take(k, &group[i], x, j)
	}
	return nil
}

// netLeft is what the binding networks have left beside all that is admitted for good.
func (in *instance) netLeft(k *component, group []shortClass) map[int32]float64 {
	left := make(map[int32]float64)
	for i := range group {
		for _, j := range group[i].free {
			if c := &k.columns[j]; c.kind == boundColumn {
				left[in.arrivals[c.at].node] = in.netRoom[in.arrivals[c.at].node]
			}
		}
	}
	for _, c := range k.classes {
		for _, a := range in.classes[c].bound {
			if n := in.arrivals[a].node; left[n] > 0 {
				left[n] -= in.netCost[in.classes[c].service] * in.arrivals[a].admitted
			}
		}
	}
	return left
}

// take reads the admitted tasks of one class from column from on, scaled to their known sum.
func (in *instance) take(k *component, s *shortClass, x []float64, from int) int {
	sum := 0.0
	for i, j := range s.free {
		sum += math.Max(0, x[from+i]) * in.asked(&k.columns[j])
	}
	scale := 1.0
	if sum > 0 {
		scale = math.Min(s.served/sum, 1+wholeTolerance)
	}
	for i, j := range s.free {
		c := &k.columns[j]
		in.setAdmitted(c, math.Max(0, x[from+i])*scale*in.asked(c))
	}
	return from + len(s.free)
}

// shareLP: maximise Σ x subject to Σ x ≤ served per class, Σ r^net x ≤ what is left per node, x ≤ λ. Columns are
// scaled by their λ, so that a column is its admitted share.
type shareLP struct {
	in      *instance
	problem highs.Problem
	byNode  map[int32][]term
	size    []float64 // by column: λ
	even    []float64 // by column: the share if all of the class have the same
	unit    float64
	target  float64
}

func (p *shareLP) addClass(k *component, s *shortClass) {
	q, cl := &p.problem, &p.in.classes[s.class]
	asked := 0.0
	for _, j := range s.free {
		asked += p.in.asked(&k.columns[j])
	}
	for _, j := range s.free {
		c, col := &k.columns[j], int32(len(p.size))
		tasks := p.in.asked(c)
		p.size = append(p.size, tasks)
		p.even = append(p.even, math.Min(1, s.served/asked))
		p.unit = math.Max(p.unit, tasks)
		q.Lower, q.Upper = append(q.Lower, 0), append(q.Upper, 1)
		q.Matrix.Index, q.Matrix.Value = append(q.Matrix.Index, col), append(q.Matrix.Value, tasks/cl.total)
		if c.kind == boundColumn {
			n := p.in.arrivals[c.at].node
			p.byNode[n] = append(p.byNode[n], term{col, p.in.netCost[cl.service]})
		}
	}
	p.endRow(s.served / cl.total)
	p.target += s.served
}

func (p *shareLP) endRow(upper float64) {
	q := &p.problem
	q.Matrix.Start = append(q.Matrix.Start, int32(len(q.Matrix.Index)))
	q.RowLower, q.RowUpper = append(q.RowLower, -inf), append(q.RowUpper, upper)
}

// addNode adds a network that can bind, and says whether it does at even shares.
func (p *shareLP) addNode(n int32, left float64) bool {
	q, most, even := &p.problem, 0.0, 0.0
	for _, t := range p.byNode[n] {
		most += t.coef * p.size[t.column]
		even += t.coef * p.size[t.column] * p.even[t.column]
	}
	if most <= left {
		return false
	}
	for _, t := range p.byNode[n] {
		q.Matrix.Index = append(q.Matrix.Index, t.column)
		q.Matrix.Value = append(q.Matrix.Value, t.coef*p.size[t.column]/most)
	}
	p.endRow(left / most)
	return even > left*(1+reachTolerance)
}

func (p *shareLP) solve(ctx context.Context) ([]float64, error) {
	p.problem.Cost = make([]float64, len(p.size))
	v := leveller{target: p.target / p.unit}
	for j, size := range p.size {
		p.problem.Cost[j] = size / p.unit
		v.units = append(v.units, unit{column: j, row: -1, owner: -1, scale: 1, worth: size / p.unit, now: -1,
			limit: vessels{{most: 1, lines: []line{{slope: 1}}}}})
	}
	m, err := highs.NewModel(&p.problem)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	v.model = m
	return v.run(ctx)
}

// SPDX-License-Identifier: Apache-2.0

package model

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/edgeweir/weir/optimizer/highs"
)

// wholeTolerance: a class served up to this share of its demand, which is solver noise, is served whole.
const wholeTolerance = 1e-8

// admit turns a component's columns into tasks: what each arrival is admitted and what each pod gets. A
// shortage is shared equally by the arrivals of a class, unless the network of an arrival's own node allows
// less; among networks that several classes share, the largest admitted shares are lowered first.
func (in *instance) admit(ctx context.Context, k *component, spread bool) error {
	served := in.pour(k)
	var short []int32
	for i, c := range k.classes {
		cl := &in.classes[c]
		share := math.Min(1, served[i]/cl.total)
		for _, a := range cl.members {
			in.arrivals[a].admitted = share * in.arrivals[a].tasks
		}
		if share < 1 && len(cl.bound) > 0 {
			short = append(short, int32(i))
		}
	}
	if len(short) == 0 || in.networksHold(k) {
		return nil
	}
	if !spread {
		in.admitAsSolved(k, short)
		return nil
	}
	if err := in.shareNetworks(ctx, k, short, served); err != nil {
		return fmt.Errorf("admitted shares: %w", err)
	}
	return nil
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

// admitAsSolved takes the short classes' admitted tasks as the throughput stage left them.
func (in *instance) admitAsSolved(k *component, short []int32) {
	isShort := make(map[int32]bool, len(short))
	for _, i := range short {
		c := k.classes[i]
		isShort[c] = true
		for _, a := range in.classes[c].members {
			in.arrivals[a].admitted = 0
		}
	}
	for j := range k.columns {
		c := &k.columns[j]
		switch {
		case !isShort[c.class]:
		case c.kind == boundColumn:
			in.arrivals[c.at].admitted = c.value
		case c.kind == poolColumn:
			for _, a := range in.classes[c.class].members {
				if !slices.Contains(in.classes[c.class].bound, a) {
					in.arrivals[a].admitted = in.arrivals[a].tasks * c.value / c.most
				}
			}
		}
	}
}

// shareNetworks finds the admitted tasks of the short classes' arrivals, whose sums are given, under the
// networks that bind.
func (in *instance) shareNetworks(ctx context.Context, k *component, short []int32, served []float64) error {
	p := newShareLP(in)
	left := make(map[int32]float64)
	isShort := make(map[int32]bool, len(short))
	for _, i := range short {
		isShort[k.classes[i]] = true
	}
	for _, n := range k.nodes {
		left[n] = in.netRoom[n]
	}
	for _, c := range k.classes {
		if isShort[c] {
			continue
		}
		for _, a := range in.classes[c].bound {
			left[in.arrivals[a].node] -= in.netCost[in.classes[c].service] * in.arrivals[a].admitted
		}
	}
	for _, i := range short {
		p.addClass(k.classes[i], served[i])
	}
	for _, n := range k.nodes {
		p.addNode(n, math.Max(0, left[n]))
	}
	x, err := p.solve(ctx)
	if err != nil {
		return err
	}
	for _, i := range short {
		p.take(k.classes[i], served[i], x)
	}
	return nil
}

// shareLP: maximise Σ x subject to Σ x ≤ served per class, Σ r^net x ≤ what is left per node, x ≤ λ. Columns are
// scaled by their λ, so that a column is its admitted share.
type shareLP struct {
	in      *instance
	problem highs.Problem
	pool    map[int32]int // by class: the pool's column
	byNode  map[int32][]term
	columns map[int32]int // by arrival
	size    []float64
	unit    float64
	target  float64
}

func newShareLP(in *instance) *shareLP {
	return &shareLP{in: in, pool: make(map[int32]int), byNode: make(map[int32][]term), columns: make(map[int32]int),
		problem: highs.Problem{Sense: highs.Maximize, Matrix: highs.Matrix{Start: []int32{0}}}}
}

func (p *shareLP) addClass(c int32, served float64) {
	q, cl := &p.problem, &p.in.classes[c]
	add := func(tasks float64) int {
		j := len(p.size)
		p.size = append(p.size, tasks)
		p.unit = math.Max(p.unit, tasks)
		q.Lower, q.Upper = append(q.Lower, 0), append(q.Upper, 1)
		q.Matrix.Index, q.Matrix.Value = append(q.Matrix.Index, int32(j)), append(q.Matrix.Value, tasks/cl.total)
		return j
	}
	if cl.pool > tinyShare*cl.total {
		p.pool[c] = add(cl.pool)
	}
	for _, a := range cl.bound {
		arr := &p.in.arrivals[a]
		if arr.tasks <= tinyShare*cl.total {
			continue
		}
		j := add(arr.tasks)
		p.columns[a] = j
		p.byNode[arr.node] = append(p.byNode[arr.node], term{int32(j), p.in.netCost[cl.service]})
	}
	p.endRow(served / cl.total)
	p.target += served
}

func (p *shareLP) endRow(upper float64) {
	q := &p.problem
	q.Matrix.Start = append(q.Matrix.Start, int32(len(q.Matrix.Index)))
	q.RowLower, q.RowUpper = append(q.RowLower, -inf), append(q.RowUpper, upper)
}

func (p *shareLP) addNode(n int32, left float64) {
	q, scale := &p.problem, 0.0
	for _, t := range p.byNode[n] {
		scale += t.coef * p.size[t.column]
	}
	if scale <= left {
		return
	}
	for _, t := range p.byNode[n] {
		q.Matrix.Index = append(q.Matrix.Index, t.column)
		q.Matrix.Value = append(q.Matrix.Value, t.coef*p.size[t.column]/scale)
	}
	p.endRow(left / scale)
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

// take reads the admitted tasks of class c, scaled to their known sum.
func (p *shareLP) take(c int32, served float64, x []float64) {
	cl, sum := &p.in.classes[c], 0.0
	pool := 0.0
	if j, ok := p.pool[c]; ok {
		pool = math.Max(0, x[j])
		sum += pool * cl.pool
	}
	for _, a := range cl.bound {
		if j, ok := p.columns[a]; ok {
			sum += math.Max(0, x[j]) * p.in.arrivals[a].tasks
		}
	}
	scale := 1.0
	if sum > 0 {
		scale = math.Min(served/sum, 1+wholeTolerance)
	}
	for _, a := range cl.members {
		p.in.arrivals[a].admitted = pool * scale * p.in.arrivals[a].tasks
	}
	for _, a := range cl.bound {
		share := 0.0
		if j, ok := p.columns[a]; ok {
			share = math.Max(0, x[j])
		}
		p.in.arrivals[a].admitted = share * scale * p.in.arrivals[a].tasks
	}
}

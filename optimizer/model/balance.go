// SPDX-License-Identifier: Apache-2.0

package model

import (
	"context"
	"fmt"
	"math"

	"github.com/edgeweir/weir/optimizer/highs"
)

// fixTolerance: a column whose reduced cost, in tasks per task, exceeds it has the same value in every optimum.
const fixTolerance = 1e-6

// balance is stage 2 for one component: among the throughput optima, that of lexicographically least levels.
//
// A column with a reduced cost keeps its value in all optima, and a class row with one free column left fixes
// that too. What stays free falls into small parts, each levelled by itself; where nothing does, which is
// almost everywhere, only the water-filling of each class's own pods is left.
func (in *instance) balance(ctx context.Context, k *component) error {
	k.free = k.freeColumns()
	for _, part := range k.parts(k.free) {
		if err := in.levelPart(ctx, k, part); err != nil {
			return fmt.Errorf("balance stage: %w", err)
		}
	}
	return nil
}

// freeColumns fixes what all optima share, at its value, and marks the rest.
func (k *component) freeColumns() []bool {
	free := make([]bool, len(k.columns))
	for j := range k.columns {
		c := &k.columns[j]
		switch {
		case c.reduced > fixTolerance:
			c.value = c.most
		case c.reduced < -fixTolerance:
			c.value = 0
		default:
			free[j] = true
		}
	}
	for changed := true; changed; {
		changed = false
		for i := range k.rows {
			if k.rows[i].kind == classRow && k.fixLast(&k.rows[i], free) {
				changed = true
			}
		}
	}
	return free
}

// fixLast fixes the only free column of a class row.
func (k *component) fixLast(r *row, free []bool) bool {
	last, sum := -1, 0.0
	for i, t := range r.terms {
		if !free[t.column] {
			sum += t.coef * k.columns[t.column].value
			continue
		}
		if last >= 0 {
			return false
		}
		last = i
	}
	if last < 0 {
		return false
	}
	t := r.terms[last]
	c := &k.columns[t.column]
	c.value = math.Min(c.most, math.Max(0, -sum/t.coef))
	free[t.column] = false
	return true
}

// parts groups the free columns that still share a row, or a coupling pod.
func (k *component) parts(free []bool) [][]int32 {
	sets := newDisjoint(len(k.columns))
	for i := range k.rows {
		first := int32(-1)
		for _, t := range k.rows[i].terms {
			if free[t.column] && first < 0 {
				first = t.column
			} else if free[t.column] {
				sets.join(first, t.column)
			}
		}
	}
	byPod := make(map[int32]int32)
	for j := range k.columns {
		c := &k.columns[j]
		if !free[j] || c.kind != podColumn {
			continue
		}
		if first, ok := byPod[c.pod]; ok {
			sets.join(first, int32(j))
		} else {
			byPod[c.pod] = int32(j)
		}
	}
	at := make(map[int32]int)
	var out [][]int32
	for j := range k.columns {
		if !free[j] {
			continue
		}
		root := sets.find(int32(j))
		i, ok := at[root]
		if !ok {
			i = len(out)
			at[root] = i
			out = append(out, nil)
		}
		out[i] = append(out[i], int32(j))
	}
	return out
}

// levelPart levels one part and sets its columns' values.
func (in *instance) levelPart(ctx context.Context, k *component, part []int32) error {
	b := newPartLP(k, part)
	for _, j := range part {
		if c := &k.columns[j]; c.kind == aloneColumn {
			worth := c.most / b.unit
			b.units = append(b.units, unit{column: int(b.at[j]), row: -1, owner: -1, limit: capped(in.aloneVessels(c.class), c.most),
				scale: c.most, worth: worth, now: -1})
		}
	}
	in.addPodUnits(b)
	if len(b.units) == 0 {
		return nil
	}
	x, err := b.level(ctx)
	if err != nil {
		return err
	}
	for _, j := range part {
		k.columns[j].value = math.Min(1, math.Max(0, x[b.at[j]])) * k.columns[j].most
	}
	return nil
}

// capped bounds each vessel by what the class has at all: a pod without limits is then finite.
func capped(g vessels, most float64) vessels {
	for i := range g {
		g[i].most = math.Min(g[i].most, most)
	}
	return g
}

// partLP is the LP of one part: its free columns, one more column per class for what is fixed to come in, and
// the rows that they share, less what is fixed in them.
type partLP struct {
	k       *component
	at      []int32 // by column of k: its column here
	columns []int32 // by column here: its column of k, −1 for a fixed inflow
	unit    float64
	problem highs.Problem
	target  float64
	units   []unit
}

func newPartLP(k *component, part []int32) *partLP {
	b := &partLP{k: k, at: filled(len(k.columns)), unit: 1,
		problem: highs.Problem{Sense: highs.Maximize, Matrix: highs.Matrix{Start: []int32{0}}}}
	for _, j := range part {
		b.unit = math.Max(b.unit, k.columns[j].most)
	}
	for _, j := range part {
		c := &k.columns[j]
		cost := 0.0
		if c.in() {
			cost = c.most / b.unit
			b.target += c.value / b.unit
		}
		b.at[j] = b.addColumn(j, cost)
	}
	for i := range k.rows {
		if r := &k.rows[i]; b.touches(r) && !(r.kind == podRow) {
			b.addRow(r)
		}
	}
	return b
}

func (b *partLP) addColumn(j int32, cost float64) int32 {
	q := &b.problem
	q.Cost, q.Lower, q.Upper = append(q.Cost, cost), append(q.Lower, 0), append(q.Upper, 1)
	b.columns = append(b.columns, j)
	return int32(len(q.Cost) - 1)
}

func (b *partLP) touches(r *row) bool {
	for _, t := range r.terms {
		if b.at[t.column] >= 0 {
			return true
		}
	}
	return false
}

// addRow adds a row less its fixed columns. A class's fixed inflow becomes a column, since levels below the
// optimum's admit less than it.
func (b *partLP) addRow(r *row) {
	q, fixedIn, fixed := &b.problem, 0.0, 0.0
	for _, t := range r.terms {
		c := &b.k.columns[t.column]
		switch {
		case b.at[t.column] >= 0:
			q.Matrix.Index = append(q.Matrix.Index, b.at[t.column])
			q.Matrix.Value = append(q.Matrix.Value, t.coef*c.most/r.limit)
		case r.kind == classRow && c.in():
			fixedIn += c.value
		default:
			fixed += t.coef * c.value
		}
	}
	if r.kind != classRow {
		b.endRow(-inf, math.Max(0, 1-fixed/r.limit))
		return
	}
	if fixedIn > tinyShare*r.limit {
		j := b.addColumn(-1, fixedIn/b.unit)
		b.target += fixedIn / b.unit
		q.Matrix.Index = append(q.Matrix.Index, j)
		q.Matrix.Value = append(q.Matrix.Value, fixedIn/r.limit)
	}
	b.endRow(-fixed/r.limit, -fixed/r.limit)
}

func (b *partLP) endRow(lower, upper float64) {
	q := &b.problem
	q.RowLower, q.RowUpper = append(q.RowLower, lower), append(q.RowUpper, upper)
	q.Matrix.Start = append(q.Matrix.Start, int32(len(q.Matrix.Index)))
}

// addPodUnits adds the rows of the coupling pods: those of rate resources are units with a level, those of
// stock resources plain limits.
func (in *instance) addPodUnits(b *partLP) {
	var order []int32
	byPod := make(map[int32][]int32) // all columns of the pod, fixed ones too
	touched := make(map[int32]bool)
	for j := range b.k.columns {
		c := &b.k.columns[j]
		if c.kind != podColumn {
			continue
		}
		if byPod[c.pod] == nil {
			order = append(order, c.pod)
		}
		byPod[c.pod] = append(byPod[c.pod], int32(j))
		touched[c.pod] = touched[c.pod] || b.at[j] >= 0
	}
	for _, p := range order {
		if touched[p] {
			in.addPodRowsTo(b, p, byPod[p])
		}
	}
}

func (in *instance) addPodRowsTo(b *partLP, p int32, columns []int32) {
	kk := in.resources
	fixed, floor := make([]float64, kk), 0.0
	for r := range kk {
		i := int(p)*kk + r
		for _, j := range columns {
			if b.at[j] < 0 {
				fixed[r] += in.cost[int(in.classes[b.k.columns[j].class].service)*kk+r] * b.k.columns[j].value
			}
		}
		if in.levelled(i, r) {
			floor = math.Max(floor, (in.base[i]+fixed[r])/in.size[i])
		}
	}
	for r := range kk {
		i, worth := int(p)*kk+r, 0.0
		room := in.room[i]
		if math.IsInf(room, 1) {
			continue
		}
		q, from := &b.problem, len(b.problem.Matrix.Index)
		for _, j := range columns {
			c := &b.k.columns[j]
			if cost := in.cost[int(in.classes[c.class].service)*kk+r]; cost > 0 && b.at[j] >= 0 {
				q.Matrix.Index = append(q.Matrix.Index, b.at[j])
				q.Matrix.Value = append(q.Matrix.Value, cost*c.most/room)
				worth = math.Max(worth, c.most/b.unit)
			}
		}
		if len(q.Matrix.Index) == from {
			continue
		}
		left := math.Max(0, room-fixed[r])
		if in.levelled(i, r) {
			limit := vessel{floor: floor, most: left, lines: []line{{in.size[i], (in.base[i] + fixed[r]) / in.size[i]}}}
			b.units = append(b.units, unit{column: -1, row: len(q.RowLower), owner: p, limit: vessels{limit},
				scale: room, worth: worth, now: -1})
		}
		b.endRow(-inf, left/room)
	}
}

// level runs the leveller on the part.
func (b *partLP) level(ctx context.Context) ([]float64, error) {
	m, err := highs.NewModel(&b.problem)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	v := leveller{model: m, target: b.target, units: b.units}
	return v.run(ctx)
}

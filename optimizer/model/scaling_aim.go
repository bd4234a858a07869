// SPDX-License-Identifier: Apache-2.0

package model

import "math"

// objective is one of the aims of a program, by column, and the constant of what it does not decide.
type objective struct {
	cost   []float64
	offset float64
}

func (g *program) shortAim() objective {
	o := objective{cost: make([]float64, len(g.columns))}
	for j, c := range g.columns {
		if c.kind == columnShort {
			o.cost[j] = 1
		}
	}
	return o
}

func (g *program) costAim() objective {
	o := objective{cost: make([]float64, len(g.columns))}
	for _, w := range g.work {
		work := &g.in.work[w]
		x0 := g.rest.total[w]
		o.offset += work.energy*float64(x0) + work.deploy*float64(max(0, x0-work.current))
	}
	for j, c := range g.columns {
		switch work := &g.in.work[c.w]; c.kind {
		case columnAdd:
			o.cost[j] = work.energy + work.deploy
		case columnRemove:
			o.cost[j] = -work.energy
		case columnUnmet:
			o.cost[j] = g.in.penalty
		}
	}
	return o
}

func (g *program) awayAim() objective {
	o := objective{cost: make([]float64, len(g.columns))}
	for j, c := range g.columns {
		switch c.kind {
		case columnAdd:
			o.cost[j] = g.in.work[c.w].away(c.n)
		case columnRemove:
			o.cost[j] = -g.in.work[c.w].away(c.n)
		}
	}
	return o
}

// peakAim adds the column t and its rows: t ≥ every utilisation.
func (g *program) peakAim() objective {
	least := 0.0
	t := g.column(scaleColumn{columnPeak, 0, -1}, 0, inf, false)
	for _, n := range g.nodes {
		if !g.in.open[n] {
			continue
		}
		for k := range g.in.resources {
			at := int(n)*g.in.resources + k
			if size := g.in.size[at]; size > 0 && !math.IsInf(size, 1) {
				index, value := g.loads(n, k, size)
				used := (g.in.base[at] + g.in.free[at] - g.rest.left[at]) / size
				if len(index) == 0 {
					least = math.Max(least, used)
					continue
				}
				g.row(-inf, -used, append(index, t), append(value, -1))
			}
		}
	}
	g.problem.Lower[t] = least
	o := objective{cost: make([]float64, len(g.columns))}
	o.cost[t] = 1
	return o
}

// keep adds the row aim ≤ value.
func (g *program) keep(o objective, value float64) {
	var index []int32
	var coefficient []float64
	largest := 0.0
	for _, c := range o.cost {
		largest = math.Max(largest, math.Abs(c))
	}
	for j, c := range o.cost {
		if c != 0 {
			index, coefficient = append(index, int32(j)), append(coefficient, c/largest)
		}
	}
	if len(index) > 0 {
		g.row(-inf, (value-o.offset)/largest+tieTolerance*math.Max(1, math.Abs(value-o.offset)/largest), index, coefficient)
	}
}

// value is the aim at a plan.
func (g *program) value(o objective, p *plan) float64 {
	v := o.offset
	for j, x := range g.at(p) {
		v += o.cost[j] * x
	}
	return v
}

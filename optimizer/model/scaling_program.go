// SPDX-License-Identifier: Apache-2.0

package model

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/edgeweir/weir/optimizer/highs"
)

// scaleKind says what a column of a program counts.
type scaleKind int8

const (
	columnAdd    scaleKind = iota // a_wn: pods of w added at n
	columnRemove                  // r_wn: pods of w taken from n
	columnUnmet                   // u_w
	columnShort                   // s_w
	columnGrows                   // 1 where w may add, 0 where it may remove
	columnPeak                    // the highest utilisation
)

type scaleColumn struct {
	kind scaleKind
	w, n int32
}

// program is the scaling model over some workloads and nodes, all others kept as in a plan:
//
//	x_w = x⁰_w + Σ_n a_wn − Σ_n r_wn, x⁰ being the plan without its changes of these workloads at these nodes
//	Σ_w p_wk (a_wn − r_wn) ≤ left_nk                 every n, k
//	sla_w x_w + u_w ≥ λ_w, and the same cut through the two whole x beside λ_w/sla_w
//	x_w + s_w ≥ low_w
//	Σ_n a_wn ≤ A g_w, Σ_n r_wn ≤ R (1 − g_w)         where w may do both
type program struct {
	in      *scaling
	from    *plan // incumbent
	rest    *plan // incumbent without what the program decides
	work    []int32
	nodes   []int32
	columns []scaleColumn
	problem highs.Problem
	byNode  map[int32][]int32 // columns
	byWork  map[int32][]int32 // columns of a and r
	fixed   bool
}

// newProgram frees the workloads at the nodes. With fixed, totals stay those of the plan.
func newProgram(from *plan, work, nodes []int32, fixed bool) *program {
	g := &program{in: from.in, from: from, rest: from.clone(), work: work, nodes: nodes, fixed: fixed,
		byNode: make(map[int32][]int32), byWork: make(map[int32][]int32)}
	inside := make([]bool, len(g.in.open))
	for _, n := range nodes {
		inside[n] = true
	}
	for _, w := range work {
		for _, s := range slices.Clone(g.rest.change[w]) {
			if inside[s.node] {
				g.rest.shift(w, s.node, -s.count)
			}
		}
	}
	g.problem.Matrix.Start = []int32{0}
	credit := g.credits()
	for _, w := range work {
		g.addWorkload(w, inside, credit)
	}
	g.addNodes()
	return g
}

// credits are, by node and resource, what removals of the program could free.
func (g *program) credits() []float64 {
	out := make([]float64, len(g.rest.left))
	for _, w := range g.work {
		work := &g.in.work[w]
		if g.removable(w) == 0 {
			continue
		}
		for _, s := range work.at {
			for k, r := range work.request {
				out[int(s.node)*g.in.resources+k] += r * float64(s.count)
			}
		}
	}
	return out
}

// removable is how many pods w may lose below rest, addable how many it may gain.
func (g *program) removable(w int32) int {
	if g.outside(w) > 0 {
		return 0
	}
	if g.fixed {
		return max(0, g.rest.total[w]-g.from.total[w])
	}
	return max(0, g.rest.total[w]-g.in.work[w].floor)
}

func (g *program) addable(w int32) int {
	if g.outside(w) < 0 {
		return 0
	}
	if g.fixed {
		return max(0, g.from.total[w]-g.rest.total[w])
	}
	return max(0, g.in.work[w].ideal-g.rest.total[w])
}

// outside is what the rest changes of w: it fixes the direction.
func (g *program) outside(w int32) int { return g.rest.total[w] - g.in.work[w].current }

func (g *program) column(c scaleColumn, lower, upper float64, integer bool) int32 {
	g.columns = append(g.columns, c)
	g.problem.Lower, g.problem.Upper = append(g.problem.Lower, lower), append(g.problem.Upper, upper)
	g.problem.Integer = append(g.problem.Integer, integer)
	return int32(len(g.columns) - 1)
}

func (g *program) row(lower, upper float64, index []int32, value []float64) {
	m := &g.problem.Matrix
	m.Index, m.Value = append(m.Index, index...), append(m.Value, value...)
	m.Start = append(m.Start, int32(len(m.Index)))
	g.problem.RowLower, g.problem.RowUpper = append(g.problem.RowLower, lower), append(g.problem.RowUpper, upper)
}

func (g *program) addWorkload(w int32, inside []bool, credit []float64) {
	var index []int32
	var value []float64
	add, remove := g.addable(w), g.removable(w)
	for _, n := range g.nodes {
		if most := min(add, g.most(w, n, credit)); most > 0 {
			index = append(index, g.column(scaleColumn{columnAdd, w, n}, 0, float64(most), true))
			value = append(value, 1)
		}
	}
	adds := len(index)
	for _, s := range g.in.work[w].at {
		if most := min(remove, s.count+g.rest.delta(w, s.node)); inside[s.node] && most > 0 {
			index = append(index, g.column(scaleColumn{columnRemove, w, s.node}, 0, float64(most), true))
			value = append(value, -1)
		}
	}
	g.byWork[w] = index
	for _, j := range index {
		n := g.columns[j].n
		g.byNode[n] = append(g.byNode[n], j)
	}
	if adds > 0 && adds < len(index) {
		g.chooseDirection(w, index[:adds], index[adds:], add, remove)
	}
	g.boundTotal(w, index, value)
}

// most is how many pods of w could be added at n if everything removable there were.
func (g *program) most(w, n int32, credit []float64) int {
	if !g.in.open[n] {
		return 0
	}
	return g.in.holds(w, n, g.rest.left, credit)
}

// holds is how many pods of w fit on n into left and credit together.
func (in *scaling) holds(w, n int32, left, credit []float64) int {
	most := mostReplicas
	for k, r := range in.work[w].request {
		if r == 0 {
			continue
		}
		at := int(n)*in.resources + k
		if fit := (left[at] + credit[at] + in.slack(at)) / r; fit < float64(most) {
			most = max(0, int(fit))
		}
	}
	return most
}

func (g *program) chooseDirection(w int32, adds, removes []int32, add, remove int) {
	grows := g.column(scaleColumn{columnGrows, w, -1}, 0, 1, true)
	g.row(-inf, 0, append(slices.Clone(adds), grows), append(ones(len(adds)), -float64(add)))
	g.row(-inf, float64(remove), append(slices.Clone(removes), grows), append(ones(len(removes)), float64(remove)))
}

func ones(n int) []float64 { return slices.Repeat([]float64{1}, n) }

// boundTotal keeps x_w between floor and ideal and defines u_w and s_w.
func (g *program) boundTotal(w int32, index []int32, value []float64) {
	work, x0 := &g.in.work[w], float64(g.rest.total[w])
	if g.fixed {
		d := float64(g.from.total[w]) - x0
		g.row(d, d, index, value)
		return
	}
	lowest := float64(work.floor)
	g.row(lowest-x0, float64(work.ideal)-x0, index, value)
	if work.unmet(int(lowest)) > 0 && g.in.penalty > 0 {
		u := g.column(scaleColumn{columnUnmet, w, -1}, 0, inf, false)
		whole := math.Floor(work.demand / work.sla)
		for _, line := range [][2]float64{{work.sla, work.demand}, // u ≥ λ − sla x
			{work.demand - work.sla*whole, (work.demand - work.sla*whole) * (whole + 1)}} { // (whole, u) to (whole+1, 0)
			if line[0] <= needTolerance*work.demand {
				continue
			}
			g.row(line[1]/line[0]-x0, inf, append(slices.Clone(index), u), append(slices.Clone(value), 1/line[0]))
		}
	}
	if low := float64(min(work.low, work.ideal)); low > lowest {
		s := g.column(scaleColumn{columnShort, w, -1}, 0, low-lowest, false)
		g.row(low-x0, inf, append(slices.Clone(index), s), append(slices.Clone(value), 1))
	}
}

// addNodes writes the capacity rows, in parts of the node's size.
func (g *program) addNodes() {
	for _, n := range g.nodes {
		for k := range g.in.resources {
			at := int(n)*g.in.resources + k
			if math.IsInf(g.rest.left[at], 1) {
				continue
			}
			unit := g.in.size[at]
			if unit == 0 {
				unit = 1
			}
			if index, value := g.loads(n, k, unit); len(index) > 0 {
				g.row(-inf, g.rest.left[at]/unit+fillTolerance/2, index, value)
			}
		}
	}
}

// loads are the columns at n with what they ask of resource k, in units.
func (g *program) loads(n int32, k int, unit float64) (index []int32, value []float64) {
	for _, j := range g.byNode[n] {
		r := g.in.work[g.columns[j].w].request[k] / unit
		if r == 0 {
			continue
		}
		if g.columns[j].kind == columnRemove {
			r = -r
		}
		index, value = append(index, j), append(value, r)
	}
	return index, value
}

// at writes a plan as values of the columns.
func (g *program) at(p *plan) []float64 {
	x := make([]float64, len(g.columns))
	for j, c := range g.columns {
		work := &g.in.work[c.w]
		switch c.kind {
		case columnAdd:
			x[j] = float64(max(0, p.delta(c.w, c.n)-g.rest.delta(c.w, c.n)))
		case columnRemove:
			x[j] = float64(max(0, g.rest.delta(c.w, c.n)-p.delta(c.w, c.n)))
		case columnUnmet:
			x[j] = work.unmet(p.total[c.w])
		case columnShort:
			x[j] = float64(max(0, min(work.low, work.ideal)-p.total[c.w]))
		case columnGrows:
			if p.total[c.w] > g.rest.total[c.w] {
				x[j] = 1
			}
		case columnPeak:
			x[j] = p.peak()
		}
	}
	return x
}

// plan reads a point of the solver; nil where it does not fit by our own sums.
func (g *program) plan(x []float64) *plan {
	p := g.rest.clone()
	for j, c := range g.columns {
		count := int(math.Round(x[j]))
		switch c.kind {
		case columnAdd:
			p.shift(c.w, c.n, count)
		case columnRemove:
			p.shift(c.w, c.n, -count)
		}
	}
	if p.check() != nil {
		return nil
	}
	return p
}

// relaxed is the aim's bound by linear programming, proven by its duals; −Inf where the time did not suffice.
func (g *program) relaxed(ctx context.Context, o objective, limit time.Duration) float64 {
	if limit <= 0 || ctx.Err() != nil {
		return math.Inf(-1)
	}
	p := g.problem
	p.Cost, p.Offset, p.Integer, p.Start = o.cost, o.offset, nil, nil
	answer, err := highs.Solve(ctx, &p, highs.Options{TimeLimit: limit})
	if err != nil || answer.Status != highs.Optimal {
		return math.Inf(-1) // a bound less: the plan stays as it is
	}
	return highs.DualBound(&p, answer.RowDuals)
}

// solve optimises one aim from the incumbent. The bound is of the aim, offset included; −Inf where none is known.
// No plan comes back when the solver found none that holds.
func (g *program) solve(ctx context.Context, o objective, limit time.Duration) (
	found *plan, bound float64, proven bool, err error) {
	if limit <= 0 || ctx.Err() != nil {
		return nil, math.Inf(-1), false, nil
	}
	if len(g.columns) == 0 {
		return g.rest, o.offset, true, nil
	}
	g.problem.Cost, g.problem.Offset, g.problem.Start = o.cost, o.offset, g.at(g.from)
	answer, err := highs.Solve(ctx, &g.problem, highs.Options{TimeLimit: limit, Tolerance: 1e-9})
	switch {
	case errors.Is(err, highs.ErrAbandoned), errors.Is(err, highs.ErrViolated):
		return nil, math.Inf(-1), false, nil
	case err != nil:
		return nil, math.Inf(-1), false, fmt.Errorf("scaling: %w", err)
	case answer.X == nil:
		return nil, answer.Bound, false, nil
	}
	return g.plan(answer.X), answer.Bound, answer.Status == highs.Optimal, nil
}

// SPDX-License-Identifier: Apache-2.0

package model

import (
	"context"
	"fmt"
	"math"

	"github.com/edgeweir/weir/optimizer/highs"
)

// solverTolerance is what HiGHS works at: columns and rows are scaled to 1, so it is relative.
const solverTolerance = 1e-9

// batch is a set of components whose throughput LPs are solved as one block-diagonal LP: a solver object costs
// more than most components.
type batch struct {
	components []*component
	columns    int
}

// batches packs components, in order, into LPs of about this many columns.
const batchColumns = 1024

func batches(ks []*component) []*batch {
	var out []*batch
	for _, k := range ks {
		if len(out) == 0 || out[len(out)-1].columns >= batchColumns {
			out = append(out, &batch{})
		}
		b := out[len(out)-1]
		b.components = append(b.components, k)
		b.columns += len(k.columns)
	}
	return out
}

// lp writes components as one LP. Every column is scaled by its most and every row by its limit, so that all
// entries lie in (0, 1]; the objective is in units of the largest cost.
type lp struct {
	problem highs.Problem
	unit    float64 // tasks per unit of the objective
}

func newLP(ks []*component) *lp {
	p := &lp{problem: highs.Problem{Sense: highs.Maximize, Matrix: highs.Matrix{Start: []int32{0}}}, unit: 1}
	for _, k := range ks {
		for j := range k.columns {
			if k.columns[j].in() {
				p.unit = math.Max(p.unit, k.columns[j].most)
			}
		}
	}
	for _, k := range ks {
		p.append(k)
	}
	return p
}

func (p *lp) append(k *component) {
	base, q := int32(len(p.problem.Cost)), &p.problem
	for j := range k.columns {
		c, cost := &k.columns[j], 0.0
		if c.in() {
			cost = c.most / p.unit
		}
		q.Cost, q.Lower, q.Upper = append(q.Cost, cost), append(q.Lower, 0), append(q.Upper, 1)
	}
	for i := range k.rows {
		r := &k.rows[i]
		for _, t := range r.terms {
			q.Matrix.Index = append(q.Matrix.Index, base+t.column)
			q.Matrix.Value = append(q.Matrix.Value, t.coef*k.columns[t.column].most/r.limit)
		}
		q.Matrix.Start = append(q.Matrix.Start, int32(len(q.Matrix.Index)))
		if r.kind == classRow {
			q.RowLower, q.RowUpper = append(q.RowLower, 0), append(q.RowUpper, 0)
		} else {
			q.RowLower, q.RowUpper = append(q.RowLower, -inf), append(q.RowUpper, 1)
		}
	}
}

// throughput solves stage 1 for a batch: it sets every column's value and reduced cost and returns the bound
// that the duals prove by our own arithmetic (highs.DualBound).
func (b *batch) throughput(ctx context.Context) (float64, error) {
	bound := 0.0
	for _, k := range b.components {
		bound += k.lost
	}
	if b.columns == 0 {
		return bound, nil
	}
	p := newLP(b.components)
	s, err := highs.Solve(ctx, &p.problem, highs.Options{Tolerance: solverTolerance})
	if err != nil {
		return 0, fmt.Errorf("throughput stage: %w", err)
	}
	if s.Status != highs.Optimal {
		return 0, fmt.Errorf("throughput stage: solver ended with %v: %w", s.Status, ErrUnsolved)
	}
	j := 0
	for _, k := range b.components {
		for i := range k.columns {
			c := &k.columns[i]
			c.value = math.Min(1, math.Max(0, s.X[j])) * c.most
			c.reduced = s.ReducedCosts[j] * p.unit / c.most
			j++
		}
	}
	return bound + highs.DualBound(&p.problem, s.RowDuals)*p.unit, nil
}

// SPDX-License-Identifier: Apache-2.0

package model

import (
	"context"
	"fmt"
	"math"

	"github.com/edgeweir/weir/optimizer/highs"
)

// maxmin replaces stage 1 where the policy asks for it: served fractions of the component's services,
// lexicographically max-min. A round maximises the least fraction φ of the open services; those with a dual can
// have no more in any optimum and are closed at φ. It leaves one more row per service, Σ in ≤ what it is served,
// which keeps the later stages to these fractions, and all columns free.
func (in *instance) maxmin(ctx context.Context, k *component) error {
	m := newMaxmin(in, k)
	if len(m.services) == 0 || m.servesAll() {
		return nil
	}
	x, err := m.run(ctx)
	if err != nil {
		return fmt.Errorf("maxmin stage: %w", err)
	}
	m.take(x)
	return nil
}

// maxminLP is the component's LP with φ as its last column and two rows per service behind the component's:
// first Σ in/Λ_l − φ ≥ 0 while open, second Σ in/Λ_l ≥ φ_l once closed.
type maxminLP struct {
	in       *instance
	k        *component
	services []int32
	columns  [][]int32 // by position in services: in-columns
	total    []float64
	open     []bool
}

func newMaxmin(in *instance, k *component) *maxminLP {
	m := &maxminLP{in: in, k: k}
	at := make(map[int32]int)
	for _, c := range k.classes {
		l := in.classes[c].service
		if _, ok := at[l]; !ok {
			at[l] = len(m.services)
			m.services, m.columns = append(m.services, l), append(m.columns, nil)
			m.total, m.open = append(m.total, in.demand(l)), append(m.open, true)
		}
	}
	for j := range k.columns {
		if c := &k.columns[j]; c.in() {
			i := at[in.classes[c.class].service]
			m.columns[i] = append(m.columns[i], int32(j))
		}
	}
	return m
}

// demand is Λ_l, over all its classes, those without pods too.
func (in *instance) demand(l int32) float64 {
	sum := 0.0
	for c := range in.classes {
		if in.classes[c].service == l {
			sum += in.classes[c].total
		}
	}
	return sum
}

// servesAll: the throughput stage left nothing to share out.
func (m *maxminLP) servesAll() bool {
	for i, columns := range m.columns {
		sum := 0.0
		for _, j := range columns {
			sum += m.k.columns[j].value
		}
		if sum < m.total[i]*(1-wholeTolerance) {
			return false
		}
	}
	return true
}

func (m *maxminLP) run(ctx context.Context) ([]float64, error) {
	p, phi := m.problem()
	rows := len(m.k.rows)
	model, err := highs.NewModel(p)
	if err != nil {
		return nil, err
	}
	defer model.Close()
	for {
		s, err := model.Solve(ctx, highs.Options{Tolerance: solverTolerance, NoPresolve: true})
		if err != nil {
			return nil, err
		}
		if s.Status != highs.Optimal {
			return nil, fmt.Errorf("solver ended with %v: %w", s.Status, ErrUnsolved)
		}
		left, closed := 0, 0
		for i := range m.services {
			if !m.open[i] {
				continue
			}
			left++
			if math.Abs(s.RowDuals[rows+2*i]) <= dualTolerance && s.X[phi] < 1-wholeTolerance {
				continue
			}
			m.open[i] = false
			closed++
			if err := model.SetRowBounds(rows+2*i, -inf, inf); err != nil {
				return nil, err
			}
			if err := model.SetRowBounds(rows+2*i+1, s.X[phi]*(1-reachTolerance), inf); err != nil {
				return nil, err
			}
		}
		if closed == 0 || closed == left {
			return s.X, nil
		}
	}
}

func (m *maxminLP) problem() (*highs.Problem, int) {
	base := newLP([]*component{m.k})
	p := &base.problem
	phi := len(p.Cost)
	p.Cost = append(make([]float64, phi), 1)
	p.Lower, p.Upper = append(p.Lower, 0), append(p.Upper, 1)
	for i, columns := range m.columns {
		for second := range 2 {
			for _, j := range columns {
				p.Matrix.Index = append(p.Matrix.Index, j)
				p.Matrix.Value = append(p.Matrix.Value, m.k.columns[j].most/m.total[i])
			}
			lower := -inf
			if second == 0 {
				lower = 0
				p.Matrix.Index, p.Matrix.Value = append(p.Matrix.Index, int32(phi)), append(p.Matrix.Value, -1)
			}
			p.Matrix.Start = append(p.Matrix.Start, int32(len(p.Matrix.Index)))
			p.RowLower, p.RowUpper = append(p.RowLower, lower), append(p.RowUpper, inf)
		}
	}
	return p, phi
}

// take sets the columns' values and the services' rows.
func (m *maxminLP) take(x []float64) {
	k := m.k
	for j := range k.columns {
		c := &k.columns[j]
		c.value, c.reduced = math.Min(1, math.Max(0, x[j]))*c.most, 0
	}
	for i, columns := range m.columns {
		r := row{kind: serviceRow, index: m.services[i]}
		for _, j := range columns {
			r.limit += k.columns[j].value
			r.terms = append(r.terms, term{j, 1})
		}
		if r.limit > tinyShare*m.total[i] {
			k.rows = append(k.rows, r)
			continue
		}
		for _, j := range columns {
			k.columns[j].reduced = -1 // served nothing
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package highs

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"
)

// Model is a problem that lives on in the solver: change it after a solve and solve again from the last
// basis. Close it when done; nothing else frees it. Not safe for concurrent use.
type Model struct {
	p     *Problem // as loaded, bounds and costs kept current
	tail  []entry  // what AddRows and AddColumns added to p.Matrix
	h     *handle
	flag  sync.Mutex // guards h against a late interrupt
	start []float64
}

type entry struct {
	row, col int32
	value    float64
}

// NewModel checks p, fills its defaults and loads it.
func NewModel(p *Problem) (*Model, error) {
	q, err := p.normalise()
	if err != nil {
		return nil, err
	}
	q.Cost, q.Lower, q.Upper = slices.Clone(q.Cost), slices.Clone(q.Lower), slices.Clone(q.Upper)
	q.RowLower, q.RowUpper = slices.Clone(q.RowLower), slices.Clone(q.RowUpper)
	m := &Model{p: q, h: newHandle(), start: q.Start}
	if err := m.h.pass(q); err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

// Close frees the solver's memory. Later calls return ErrClosed; closing twice is fine.
func (m *Model) Close() {
	m.flag.Lock()
	defer m.flag.Unlock()
	if m.h != nil {
		m.h.destroy()
		m.h = nil
	}
}

// Columns and Rows are the current numbers of each.
func (m *Model) Columns() int { return len(m.p.Cost) }

// Rows is the current number of rows.
func (m *Model) Rows() int { return len(m.p.RowLower) }

// AddRows appends rows lower ≤ a·x ≤ upper; a is Rowwise over the present columns.
func (m *Model) AddRows(lower, upper []float64, a Matrix) error {
	if m.h == nil {
		return ErrClosed
	}
	if a.Layout != Rowwise || len(lower) != len(upper) {
		return fmt.Errorf("highs: add rows: want a rowwise matrix and as many lower as upper bounds")
	}
	a, err := a.compact(len(lower), m.Columns())
	if err != nil {
		return err
	}
	if err := m.h.addRows(lower, upper, a); err != nil {
		return err
	}
	base := int32(m.Rows())
	for i := range lower {
		for e := a.Start[i]; e < a.Start[i+1]; e++ {
			m.tail = append(m.tail, entry{base + int32(i), a.Index[e], a.Value[e]})
		}
	}
	m.p.RowLower, m.p.RowUpper = append(m.p.RowLower, lower...), append(m.p.RowUpper, upper...)
	return nil
}

// AddColumns appends columns; a is Colwise over the present rows, integer may be nil.
func (m *Model) AddColumns(cost, lower, upper []float64, integer []bool, a Matrix) error {
	if m.h == nil {
		return ErrClosed
	}
	n := len(cost)
	if a.Layout != Colwise || len(lower) != n || len(upper) != n || (integer != nil && len(integer) != n) {
		return fmt.Errorf("highs: add columns: want a colwise matrix and %d bounds", n)
	}
	a, err := a.compact(n, m.Rows())
	if err != nil {
		return err
	}
	if err := m.h.addColumns(cost, lower, upper, a); err != nil {
		return err
	}
	base := m.Columns()
	if integer != nil {
		if err := m.h.setIntegrality(base, base+n, integer); err != nil {
			return err
		}
	}
	for j := range n {
		for e := a.Start[j]; e < a.Start[j+1]; e++ {
			m.tail = append(m.tail, entry{a.Index[e], int32(base + j), a.Value[e]})
		}
	}
	m.growColumns(cost, lower, upper, integer)
	return nil
}

func (m *Model) growColumns(cost, lower, upper []float64, integer []bool) {
	base, n := m.Columns(), len(cost)
	m.p.Cost = append(m.p.Cost, cost...)
	m.p.Lower, m.p.Upper = append(m.p.Lower, lower...), append(m.p.Upper, upper...)
	if integer == nil && m.p.Integer == nil {
		return
	}
	all := make([]bool, base+n)
	copy(all, m.p.Integer)
	copy(all[base:], integer)
	m.p.Integer = all
	m.start = nil // it no longer names every column
}

// SetColumnBounds changes the bounds of column j.
func (m *Model) SetColumnBounds(j int, lower, upper float64) error {
	if m.h == nil {
		return ErrClosed
	}
	m.p.Lower[j], m.p.Upper[j] = lower, upper
	return m.h.columnBounds(j, lower, upper)
}

// SetRowBounds changes the bounds of row i.
func (m *Model) SetRowBounds(i int, lower, upper float64) error {
	if m.h == nil {
		return ErrClosed
	}
	m.p.RowLower[i], m.p.RowUpper[i] = lower, upper
	return m.h.rowBounds(i, lower, upper)
}

// SetCost changes the cost of column j.
func (m *Model) SetCost(j int, cost float64) error {
	if m.h == nil {
		return ErrClosed
	}
	m.p.Cost[j] = cost
	return m.h.columnCost(j, cost)
}

// Solve solves from the last basis where there is one. It returns when done, at the time limit, or soon after
// ctx is done (HiGHS looks at the interrupt between iterations, not within presolve).
func (m *Model) Solve(ctx context.Context, o Options) (*Solution, error) {
	if m.h == nil {
		return nil, ErrClosed
	}
	began := time.Now()
	if s := m.trivial(); s != nil {
		return s, nil
	}
	if ctx.Err() != nil {
		return &Solution{Status: Interrupted, Bound: m.noBound(), Gap: math.Inf(1)}, nil
	}
	stop := m.watch(ctx)
	defer stop()
	s, err := m.attempt(o, began)
	if err == nil && !s.doubtful() {
		return s, nil
	}
	if o.NoPresolve {
		return m.believe(s, err)
	}
	o.NoPresolve, o.SkipBasis = true, true
	again, err := m.attempt(o, began)
	if again != nil {
		again.Retried = true
	}
	return m.believe(again, err)
}

// believe turns what is still wrong after the retry into an error.
func (m *Model) believe(s *Solution, err error) (*Solution, error) {
	if err == nil && s.Status == Optimal && s.Violation > violationTolerance {
		return s, fmt.Errorf("highs: %d rows, %d columns, by %.2g: %w", m.Rows(), m.Columns(), s.Violation, ErrViolated)
	}
	return s, err
}

// watch raises the interrupt flag when ctx ends; the returned function takes it down again.
func (m *Model) watch(ctx context.Context) func() {
	m.h.unraise()
	quit := context.AfterFunc(ctx, func() {
		m.flag.Lock()
		defer m.flag.Unlock()
		if m.h != nil {
			m.h.raise()
		}
	})
	return func() { quit() }
}

// trivial answers what HiGHS trips over: no columns, and bounds that cross.
func (m *Model) trivial() *Solution {
	infeasible := &Solution{Status: Infeasible, Bound: m.noBound(), Gap: math.Inf(1)}
	for j := range m.p.Lower {
		if m.p.Lower[j] > m.p.Upper[j] {
			return infeasible
		}
	}
	for i := range m.p.RowLower {
		if m.p.RowLower[i] > m.p.RowUpper[i] {
			return infeasible
		}
	}
	if m.Columns() > 0 {
		return nil
	}
	for i := range m.p.RowLower {
		if outside(0, m.p.RowLower[i], m.p.RowUpper[i]) > violationTolerance {
			return infeasible
		}
	}
	return &Solution{Status: Optimal, X: []float64{}, RowValues: make([]float64, m.Rows()),
		RowDuals: make([]float64, m.Rows()), ReducedCosts: []float64{}, Objective: m.p.Offset, Bound: m.p.Offset}
}

// noBound is the bound that says nothing.
func (m *Model) noBound() float64 {
	if m.p.Sense == Maximize {
		return Inf
	}
	return -Inf
}

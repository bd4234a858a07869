// SPDX-License-Identifier: Apache-2.0

package highs

import (
	"fmt"
	"math"
)

// Inf bounds nothing.
var Inf = math.Inf(1)

// Sense is the direction of optimisation.
type Sense int

// The two senses; the zero value minimises.
const (
	Minimize Sense = iota
	Maximize
)

// Layout says what a Matrix is compressed by.
type Layout int

// Compressed by rows (CSR, the zero value) or by columns (CSC).
const (
	Rowwise Layout = iota
	Colwise
)

// Matrix is a compressed sparse matrix. Start has one entry more than there are major vectors (rows or
// columns, by Layout), Start[0] = 0. Entries of one position add up; empty vectors and zeros are allowed.
type Matrix struct {
	Layout Layout
	Start  []int32
	Index  []int32
	Value  []float64
}

// Hessian is the lower triangle, by columns, of Q in ½xᵀQx + cᵀx. Start has one entry more than columns.
type Hessian struct {
	Start []int32
	Index []int32
	Value []float64
}

// Problem is: optimise offset + Cost·x (+ ½xᵀQx) subject to RowLower ≤ Ax ≤ RowUpper, Lower ≤ x ≤ Upper and
// x_j integer where Integer[j]. Costs and entries are finite; bounds may be ±Inf. Nil Lower means zeros,
// nil Upper means none, nil Integer means continuous.
type Problem struct {
	Sense        Sense
	Offset       float64
	Cost         []float64
	Lower, Upper []float64
	RowLower     []float64
	RowUpper     []float64
	Matrix       Matrix
	Integer      []bool
	Hessian      *Hessian
	Start        []float64 // a first point for a MIP, whole or nil
}

// normalise returns a copy with defaults filled and duplicate entries added up, or an error naming the
// field at fault.
func (p *Problem) normalise() (*Problem, error) {
	q := *p
	cols, rows := len(p.Cost), len(p.RowLower)
	q.Lower = orFilled(p.Lower, cols, 0)
	q.Upper = orFilled(p.Upper, cols, Inf)
	if err := q.checkLengths(cols, rows); err != nil {
		return nil, err
	}
	if err := q.checkNumbers(); err != nil {
		return nil, err
	}
	major, minor := rows, cols
	if p.Matrix.Layout == Colwise {
		major, minor = cols, rows
	}
	m, err := p.Matrix.compact(major, minor)
	if err != nil {
		return nil, err
	}
	q.Matrix = m
	return &q, nil
}

func orFilled(v []float64, n int, fill float64) []float64 {
	if v != nil || n == 0 {
		return v
	}
	v = make([]float64, n)
	for i := range v {
		v[i] = fill
	}
	return v
}

func (p *Problem) checkLengths(cols, rows int) error {
	for _, f := range []struct {
		name      string
		got, want int
		optional  bool
	}{
		{"Lower", len(p.Lower), cols, false},
		{"Upper", len(p.Upper), cols, false},
		{"RowUpper", len(p.RowUpper), rows, false},
		{"Integer", len(p.Integer), cols, true},
		{"Start", len(p.Start), cols, true},
	} {
		if f.got != f.want && !(f.optional && f.got == 0) {
			return fmt.Errorf("highs: %s has %d entries, want %d", f.name, f.got, f.want)
		}
	}
	if h := p.Hessian; h != nil {
		if len(h.Start) != cols+1 || len(h.Index) != len(h.Value) || int(h.Start[cols]) != len(h.Index) {
			return fmt.Errorf("highs: Hessian is not compressed by %d columns", cols)
		}
		if p.integers() > 0 {
			return fmt.Errorf("highs: Hessian with integer columns is not solvable")
		}
	}
	return nil
}

func (p *Problem) integers() int {
	n := 0
	for _, b := range p.Integer {
		if b {
			n++
		}
	}
	return n
}

func (p *Problem) checkNumbers() error {
	if bad := firstNotFinite(p.Cost); bad >= 0 {
		return fmt.Errorf("highs: Cost[%d] is %v", bad, p.Cost[bad])
	}
	if bad := firstNotFinite(p.Start); bad >= 0 {
		return fmt.Errorf("highs: Start[%d] is %v", bad, p.Start[bad])
	}
	for _, b := range []struct {
		name string
		v    []float64
	}{{"Lower", p.Lower}, {"Upper", p.Upper}, {"RowLower", p.RowLower}, {"RowUpper", p.RowUpper}} {
		for i, x := range b.v {
			if math.IsNaN(x) {
				return fmt.Errorf("highs: %s[%d] is NaN", b.name, i)
			}
		}
	}
	return nil
}

func firstNotFinite(v []float64) int {
	for i, x := range v {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return i
		}
	}
	return -1
}

// compact checks the shape and adds up entries of one position: HiGHS refuses duplicates.
func (m Matrix) compact(major, minor int) (Matrix, error) {
	if len(m.Start) == 0 {
		m.Start = make([]int32, major+1)
	}
	if len(m.Start) != major+1 || len(m.Index) != len(m.Value) || int(m.Start[major]) != len(m.Index) {
		return m, fmt.Errorf("highs: Matrix has %d starts and %d entries, want %d starts", len(m.Start), len(m.Index), major+1)
	}
	at := make([]int32, minor) // 1 + position of the entry in the current vector
	out := Matrix{Layout: m.Layout, Start: make([]int32, major+1),
		Index: make([]int32, 0, len(m.Index)), Value: make([]float64, 0, len(m.Value))}
	for i := range major {
		from := int32(len(out.Index))
		if m.Start[i] > m.Start[i+1] {
			return m, fmt.Errorf("highs: Matrix.Start[%d] falls", i+1)
		}
		for e := m.Start[i]; e < m.Start[i+1]; e++ {
			j, v := m.Index[e], m.Value[e]
			if j < 0 || int(j) >= minor {
				return m, fmt.Errorf("highs: Matrix.Index[%d] is %d, want 0..%d", e, j, minor-1)
			}
			if math.IsNaN(v) || math.IsInf(v, 0) {
				return m, fmt.Errorf("highs: Matrix.Value[%d] is %v", e, v)
			}
			if k := at[j] - 1; k >= from {
				out.Value[k] += v
				continue
			}
			out.Index = append(out.Index, j)
			out.Value = append(out.Value, v)
			at[j] = int32(len(out.Index))
		}
		out.Start[i+1] = int32(len(out.Index))
	}
	return out, nil
}

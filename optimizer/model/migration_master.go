// SPDX-License-Identifier: Apache-2.0

package model

import (
	"math"

	"github.com/edgeweir/weir/optimizer/highs"
)

// master is the outer approximation of a fleet's problem over some of its transfers, as HiGHS takes it. Its
// columns are u_j, t_j ≥ u_j² by tangents, R, then one z per transfer; its rows are u_j's definitions, then what
// rows and tangents say, in the order of their making. u is in units of sigma and the objective of 1/scale, so
// that all is near 1.
type master struct {
	f        *fleet
	squares  []square
	at       [][]int32 // by node: its squares
	sigma    float64
	scale    float64
	slack    bool    // there are squares between nodes, and so R
	mean     float64 // of r_n at the start, which R is counted from
	columns  []transfer
	byPod    [][]int32 // columns by pod
	toNode   [][]int32 // columns by target
	tangents []tangent
	rows     map[limitName]int32
	names    []limitName // by row; tangents and definitions have the zero name
}

// tangent is t_j ≥ 2 point u_j − point².
type tangent struct {
	square int32
	point  float64
	row    int32
}

// limitName is a row besides definitions and tangents.
type limitName struct {
	kind limitKind
	at   int32 // pod, or node × resource
}

type limitKind uint8

const (
	noLimit    limitKind = iota
	timeLimit            // seconds / budget, at most 1
	countLimit           // moves, at most maxMoves
	roomLimit            // demand / room, at most 1
	freeLimit            // request / free, at most 1
	podLimit             // moves of one pod, at most 1
)

func newMaster(f *fleet, squares []square) *master {
	m := &master{f: f, squares: squares, at: make([][]int32, len(f.nodes)), byPod: make([][]int32, len(f.pods)),
		toNode: make([][]int32, len(f.nodes)), rows: make(map[limitName]int32), names: make([]limitName, len(squares))}
	sum, heavy := 0.0, 0.0
	for j := range squares {
		q := &squares[j]
		m.at[q.node] = append(m.at[q.node], int32(j))
		sum += q.start * q.start
		heavy = math.Max(heavy, q.weight)
		m.slack = m.slack || q.level
	}
	for n := range f.nodes {
		_, level := f.measure(f.load[n*f.kinds:(n+1)*f.kinds], int32(n))
		m.mean += level / float64(len(f.nodes))
	}
	m.sigma = math.Max(1e-6, math.Sqrt(sum/float64(len(squares))))
	m.scale = 1 / (heavy * m.sigma * m.sigma)
	if f.budget > 0 {
		m.name(timeLimit, 0)
	}
	if f.maxMoves < len(f.pods) {
		m.name(countLimit, 0)
	}
	for j := range squares {
		m.touch(int32(j), squares[j].start/m.sigma)
	}
	return m
}

// startFrom takes a plan's transfers as columns, and makes tangents around its values: a linear programme with few
// tangents leaps far beyond the optimum, and needs many rounds to find back. It returns the plan's value.
func (m *master) startFrom(plan []transfer) float64 {
	for _, t := range plan {
		m.add(t)
	}
	z := make([]float64, len(plan))
	for i := range z {
		z[i] = 1
	}
	u, value := m.values(z)
	var squares, n [2]float64
	kind := func(j int) int {
		if m.squares[j].level {
			return 1
		}
		return 0
	}
	for j, v := range u {
		squares[kind(j)] += v * v
		n[kind(j)]++
	}
	for j, v := range u {
		step := math.Sqrt(squares[kind(j)] / n[kind(j)])
		for _, by := range []float64{0, -0.5, 0.5, -1.5, 1.5} {
			m.touch(int32(j), v+by*step)
		}
	}
	return value
}

// name makes a row and returns its number.
func (m *master) name(kind limitKind, at int32) int32 {
	row := int32(len(m.names))
	m.rows[limitName{kind, at}] = row
	m.names = append(m.names, limitName{kind, at})
	return row
}

// touch makes a tangent.
func (m *master) touch(j int32, point float64) {
	m.tangents = append(m.tangents, tangent{j, point, int32(len(m.names))})
	m.names = append(m.names, limitName{})
}

// add makes a column.
func (m *master) add(t transfer) {
	m.byPod[t.pod] = append(m.byPod[t.pod], int32(len(m.columns)))
	m.toNode[t.to] = append(m.toNode[t.to], int32(len(m.columns)))
	m.columns = append(m.columns, t)
}

// fixed is the number of columns before the transfers.
func (m *master) fixed() int {
	n := 2 * len(m.squares)
	if m.slack {
		n++
	}
	return n
}

// entries lists the column of a transfer.
func (m *master) entries(t transfer, emit func(row int32, v float64)) {
	f := m.f
	for _, j := range m.at[f.home[t.pod]] {
		emit(j, f.slope(&m.squares[j], t.pod)/m.sigma)
	}
	for _, j := range m.at[t.to] {
		emit(j, -f.slope(&m.squares[j], t.pod)/m.sigma)
	}
	named := func(kind limitKind, at int32) {
		if row, ok := m.rows[limitName{kind, at}]; ok {
			emit(row, m.entry(limitName{kind, at}, t))
		}
	}
	named(timeLimit, 0)
	named(countLimit, 0)
	named(podLimit, t.pod)
	for k := range f.kinds {
		at := t.to*int32(f.kinds) + int32(k)
		named(roomLimit, at)
		named(freeLimit, at)
	}
}

// entry is t's coefficient in a row of that name which it is in.
func (m *master) entry(name limitName, t transfer) float64 {
	f := m.f
	k := int(t.pod)*f.kinds + int(name.at)%f.kinds
	switch name.kind {
	case timeLimit:
		return f.moveTime(t.pod, t.to) / f.budget
	case roomLimit:
		return f.demand[k] / f.room[name.at]
	case freeLimit:
		return f.request[k] / f.free[name.at]
	}
	return 1
}

// upper is the upper bound of a named row.
func (m *master) upper(name limitName) float64 {
	if name.kind == countLimit {
		return float64(m.f.maxMoves)
	}
	return 1
}

// problem is the master as a whole, its transfers integer or not.
func (m *master) problem(integer bool) *highs.Problem {
	j, cols := len(m.squares), m.fixed()+len(m.columns)
	p := &highs.Problem{Cost: make([]float64, cols), Lower: make([]float64, cols), Upper: make([]float64, cols),
		RowLower: make([]float64, len(m.names)), RowUpper: make([]float64, len(m.names))}
	p.Matrix.Layout = highs.Colwise
	emit := func(row int32, v float64) {
		p.Matrix.Index, p.Matrix.Value = append(p.Matrix.Index, row), append(p.Matrix.Value, v)
	}
	next := func() { p.Matrix.Start = append(p.Matrix.Start, int32(len(p.Matrix.Index))) }
	touching := m.touching()
	for i := range m.squares {
		next()
		p.Lower[i], p.Upper[i] = -inf, inf
		emit(int32(i), 1)
		for _, t := range touching[i] {
			emit(t.row, -2*t.point)
		}
	}
	for i := range m.squares {
		next()
		p.Cost[j+i], p.Upper[j+i] = m.costOf(i), inf
		for _, t := range touching[i] {
			emit(t.row, 1)
		}
	}
	if m.slack {
		next()
		p.Lower[2*j], p.Upper[2*j] = -inf, inf
		for i := range m.squares {
			if m.squares[i].level {
				emit(int32(i), 1)
			}
		}
	}
	for i, t := range m.columns {
		next()
		c := m.fixed() + i
		p.Cost[c], p.Upper[c] = m.f.s.Migration.MoveCost*m.scale, 1
		m.entries(t, emit)
	}
	next()
	m.bounds(p)
	if integer {
		p.Integer = make([]bool, cols)
		for i := range m.columns {
			p.Integer[m.fixed()+i] = true
		}
	}
	return p
}

// costOf is the cost of t_j.
func (m *master) costOf(j int) float64 { return m.squares[j].weight * m.sigma * m.sigma * m.scale }

// envelope is what the tangents say that t is at u, at least.
func (m *master) envelope(u []float64) []float64 {
	t := make([]float64, len(u))
	for _, g := range m.tangents {
		t[g.square] = math.Max(t[g.square], 2*g.point*u[g.square]-g.point*g.point)
	}
	return t
}

// touching lists the tangents by square.
func (m *master) touching() [][]tangent {
	out := make([][]tangent, len(m.squares))
	for _, t := range m.tangents {
		out[t.square] = append(out[t.square], t)
	}
	return out
}

// bounds fills the rows' bounds.
func (m *master) bounds(p *highs.Problem) {
	for row, name := range m.names {
		if name.kind != noLimit {
			p.RowLower[row], p.RowUpper[row] = -inf, m.upper(name)
		}
	}
	for i := range m.squares {
		p.RowLower[i] = m.squares[i].start / m.sigma
		p.RowUpper[i] = p.RowLower[i]
	}
	for _, t := range m.tangents {
		p.RowLower[t.row], p.RowUpper[t.row] = -t.point*t.point, inf
	}
}

// values are the squares' u at z (by column), in units of sigma, and the objective there. R is the mean.
func (m *master) values(z []float64) (u []float64, objective float64) {
	f := m.f
	u = make([]float64, len(m.squares))
	for j := range u {
		u[j] = m.squares[j].start / m.sigma
	}
	for i := range z {
		if z[i] == 0 {
			continue
		}
		t := m.columns[i]
		objective += f.s.Migration.MoveCost * z[i]
		for _, j := range m.at[f.home[t.pod]] {
			u[j] -= z[i] * f.slope(&m.squares[j], t.pod) / m.sigma
		}
		for _, j := range m.at[t.to] {
			u[j] += z[i] * f.slope(&m.squares[j], t.pod) / m.sigma
		}
	}
	mean := 0.0
	for j := range u {
		if m.squares[j].level {
			mean += u[j] / float64(len(f.nodes))
		}
	}
	for j := range u {
		if m.squares[j].level {
			u[j] -= mean
		}
		objective += m.squares[j].weight * u[j] * u[j] * m.sigma * m.sigma
	}
	return u, objective
}

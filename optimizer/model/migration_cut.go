// SPDX-License-Identifier: Apache-2.0

package model

import "github.com/edgeweir/weir/optimizer/highs"

// newRows gathers rows for a living linear programme.
type newRows struct {
	lower, upper []float64
	matrix       highs.Matrix
}

func (r *newRows) empty() bool { return len(r.lower) == 0 }

func (r *newRows) begin(lower, upper float64) {
	r.lower, r.upper = append(r.lower, lower), append(r.upper, upper)
	r.matrix.Start = append(r.matrix.Start, int32(len(r.matrix.Index)))
}

func (r *newRows) emit(col int, v float64) {
	r.matrix.Index, r.matrix.Value = append(r.matrix.Index, int32(col)), append(r.matrix.Value, v)
}

func (r *newRows) addTo(lp *highs.Model) error {
	if r.empty() {
		return nil
	}
	r.matrix.Start = append(r.matrix.Start, int32(len(r.matrix.Index)))
	return lp.AddRows(r.lower, r.upper, r.matrix)
}

// cut names the rows that z breaks, and touches the squares where the tangents lie below u². The solver's own t is
// no measure of that, since its R need not be the mean.
func (m *master) cut(z, u []float64) *newRows {
	rows := &newRows{}
	m.cutRows(rows, z)
	t, total := m.envelope(u), 0.0
	below := make([]float64, len(u))
	for j := range u {
		below[j] = max(0, m.squares[j].weight*(u[j]*u[j]-t[j]))
		total += below[j]
	}
	const few = 0.01 // of the mean error: squares with less wait
	for j := range u {
		if below[j] > few*total/float64(len(u)) && below[j] > 1e-9*m.squares[j].weight {
			m.touch(int32(j), u[j])
			rows.begin(-u[j]*u[j], inf)
			rows.emit(j, -2*u[j])
			rows.emit(len(m.squares)+j, 1)
		}
	}
	return rows
}

// cutRows adds the rooms, the allocatables and the one move per pod that z exceeds.
func (m *master) cutRows(rows *newRows, z []float64) {
	f := m.f
	pods, room, free := make([]float64, len(f.pods)), make([]float64, len(f.room)), make([]float64, len(f.free))
	for i, v := range z {
		if v <= 0 {
			continue
		}
		t := m.columns[i]
		pods[t.pod] += z[i]
		for k := range f.kinds {
			room[int(t.to)*f.kinds+k] += z[i] * f.demand[int(t.pod)*f.kinds+k]
			free[int(t.to)*f.kinds+k] += z[i] * f.request[int(t.pod)*f.kinds+k]
		}
	}
	const broken = 1 + 1e-6
	add := func(kind limitKind, at int, sum, limit float64, columns []int32) {
		name := limitName{kind, int32(at)}
		if _, ok := m.rows[name]; ok || limit <= 0 || sum <= limit*broken {
			return
		}
		m.name(kind, name.at)
		rows.begin(-inf, 1)
		for _, i := range columns {
			if v := m.entry(name, m.columns[i]); v != 0 {
				rows.emit(m.fixed()+int(i), v)
			}
		}
	}
	for p, sum := range pods {
		add(podLimit, p, sum, 1, m.byPod[p])
	}
	for at := range room {
		add(roomLimit, at, room[at], f.room[at], m.toNode[at/f.kinds])
		add(freeLimit, at, free[at], f.free[at], m.toNode[at/f.kinds])
	}
}

// addColumns gives the living linear programme the columns from number `from` on.
func (m *master) addColumns(lp *highs.Model, from int) error {
	n := len(m.columns) - from
	if n == 0 {
		return nil
	}
	cost, lower, upper := make([]float64, n), make([]float64, n), make([]float64, n)
	a := highs.Matrix{Layout: highs.Colwise}
	for i, t := range m.columns[from:] {
		cost[i], upper[i] = m.f.s.Migration.MoveCost*m.scale, 1
		a.Start = append(a.Start, int32(len(a.Index)))
		m.entries(t, func(row int32, v float64) {
			a.Index, a.Value = append(a.Index, row), append(a.Value, v)
		})
	}
	a.Start = append(a.Start, int32(len(a.Index)))
	return lp.AddColumns(cost, lower, upper, nil, a)
}

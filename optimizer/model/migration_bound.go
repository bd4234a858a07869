// SPDX-License-Identifier: Apache-2.0

package model

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/edgeweir/weir/optimizer/highs"
)

// closed: a bound within this of a value, relative to it, proves the value.
const closed = 1e-6

// enough: the bound need not come nearer to the linear programme's value than this part of its distance from a
// plan.
const enough = 0.02

// bounding finds a lower bound on every plan by column generation. What it knows may be read at any time.
type bounding struct {
	finished chan *master
	start    float64 // value of the plan that it starts from

	mu   sync.Mutex
	best *pricing   // of the best prices so far
	hot  []transfer // the columns so far, with their z as worth
}

// known is the best pricing so far, nil at first, and the columns.
func (b *bounding) known() (*pricing, []transfer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.best, b.hot
}

func (b *bounding) learn(g *pricing) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.best == nil || g.bound > b.best.bound {
		b.best = g
	}
}

func (b *bounding) publish(columns []transfer, z []float64) {
	hot := make([]transfer, len(columns))
	for i, t := range columns {
		hot[i] = transfer{t.pod, t.to, z[i]}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.hot = hot
}

// run adds tangents, rows and columns until the linear programme's value and the bound meet, and returns the
// master with all that it gathered; plan is where it starts. It stays on one thread, where HiGHS keeps its
// scheduler.
func (b *bounding) run(ctx context.Context, f *fleet, squares []square, plan []transfer, c clock) (*master, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	m := newMaster(f, squares)
	v := newPrices(f, squares)
	for j := range squares { // the gradient at home
		v.y[j] = 2 * squares[j].weight * squares[j].start
	}
	b.learn(f.price(squares, v, nil, nil))
	b.start = m.startFrom(plan)
	lp, err := highs.NewModel(m.problem(false))
	if err != nil {
		return m, err
	}
	defer lp.Close()
	for !c.over() {
		more, err := b.round(ctx, m, lp, c)
		if err != nil || !more {
			return m, err
		}
	}
	return m, nil
}

// round solves once, learns the bound, and adds what the solution breaks; false when there is no more to gain.
func (b *bounding) round(ctx context.Context, m *master, lp *highs.Model, c clock) (bool, error) {
	solution, err := lp.Solve(ctx, highs.Options{TimeLimit: c.left()})
	if err != nil || solution.Status != highs.Optimal || solution.RowDuals == nil {
		return false, err
	}
	z := solution.X[m.fixed():]
	b.publish(m.columns, z)
	u, value := m.values(z)
	v, columns := m.pricesOf(solution.RowDuals), len(m.columns)
	b.learn(m.f.price(m.squares, v, m.ceiling(v), m.add))
	if best, _ := b.known(); value-best.bound <= max(closed/10*value, enough*(b.start-best.bound)) {
		return false, nil
	}
	if err := m.addColumns(lp, columns); err != nil {
		return false, err
	}
	rows := m.cut(z, u)
	if columns == len(m.columns) && rows.empty() {
		return false, nil
	}
	return true, rows.addTo(lp)
}

// pricesOf turns row duals into prices.
func (m *master) pricesOf(duals []float64) *prices {
	v := newPrices(m.f, m.squares)
	for j := range m.squares {
		v.y[j] = duals[j] / (m.sigma * m.scale)
	}
	for row, name := range m.names {
		dual := max(0, -duals[row]/m.scale)
		switch name.kind {
		case timeLimit:
			v.time = dual / m.f.budget
		case countLimit:
			v.count = dual
		case roomLimit:
			v.room[name.at] = dual / m.f.room[name.at]
		case freeLimit:
			v.free[name.at] = dual / m.f.free[name.at]
		}
	}
	return v
}

// ceiling says below which cost a transfer of p is worth a column: under what p's columns have, and under 0
// with the price of a move.
func (m *master) ceiling(v *prices) func(p int32) float64 {
	g := &pricing{v: v}
	v.centre(m.squares)
	g.unitPrices(m.f, m.squares)
	noise := 1e-7 / m.scale
	return func(p int32) float64 {
		top := -v.count
		for _, i := range m.byPod[p] {
			top = min(top, g.cost(m.f, p, m.columns[i].to))
		}
		return top - noise
	}
}

// startBounding runs the bounding on a goroutine of its own.
func startBounding(ctx context.Context, f *fleet, squares []square, plan []transfer, c clock) *bounding {
	b := &bounding{finished: make(chan *master, 1)}
	go func() {
		m, err := b.run(ctx, f, squares, plan, c)
		if err != nil {
			m = nil // what is known stays
		}
		b.finished <- m
	}()
	return b
}

// wait returns the master when the bounding ends, nil at the deadline: the solver then ends on its own.
func (b *bounding) wait(deadline time.Time) *master {
	late := time.NewTimer(time.Until(deadline))
	defer late.Stop()
	select {
	case m := <-b.finished:
		return m
	case <-late.C:
		return nil
	}
}

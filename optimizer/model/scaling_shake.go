// SPDX-License-Identifier: Apache-2.0

package model

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"time"
)

const (
	shakenNodes = 4
	// idleShakes times the nodes are how many shakes in a row may gain nothing.
	idleShakes = 100
)

// shake improves the incumbent by redoing a few nodes at a time: what changes there is taken back, and the
// workloads that want pods are served anew on these nodes alone, in an order that leans towards the densest. It
// ends when many shakes gain nothing.
func (f *scalingSearch) shake(ctx context.Context, until time.Time) {
	r := rand.New(rand.NewPCG(1, 4))
	e := newExchanger(f.best, f.hosts)
	open := e.nodes
	if len(open) == 0 {
		return
	}
	late := func() bool { return ctx.Err() != nil || time.Until(until) < 0 }
	value := f.best.costs()
	for idle := 0; idle < idleShakes*len(open) && !late() && !f.proven(); idle++ {
		e.nodes = sample(r, open, shakenNodes)
		before := e.memory()
		e.clear()
		e.settle(f.wanting(r), func() bool { return false })
		switch v := f.best.costs(); v.compareCost(value) {
		case -1:
			value, idle = v, 0
		case 1:
			e.restore(before)
		}
	}
}

// sample draws distinct nodes.
func sample(r *rand.Rand, from []int32, most int) []int32 {
	var out []int32
	for len(out) < min(most, len(from)) {
		if n := from[r.IntN(len(from))]; !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out
}

// wanting lists the workloads below their ideal, by density times chance.
func (f *scalingSearch) wanting(r *rand.Rand) []int32 {
	type rank struct {
		w   int32
		key float64
	}
	var ranks []rank
	for i := range f.in.work {
		if w := &f.in.work[i]; f.best.total[i] < w.ideal {
			ranks = append(ranks, rank{int32(i), w.gain(f.in.penalty) / max(w.size, 1e-300) * (0.5 + r.Float64())})
		}
	}
	slices.SortFunc(ranks, func(a, b rank) int { return cmp.Or(cmp.Compare(b.key, a.key), cmp.Compare(a.w, b.w)) })
	out := make([]int32, len(ranks))
	for i := range ranks {
		out[i] = ranks[i].w
	}
	return out
}

// remembered is one change at one node.
type remembered struct {
	w, n  int32
	count int
}

// memory is what the plan changes on e's nodes.
func (e *exchanger) memory() []remembered {
	var out []remembered
	for _, n := range e.nodes {
		for _, w := range e.p.on[n] {
			out = append(out, remembered{w, n, e.p.delta(w, n)})
		}
	}
	return out
}

// clear takes back what the plan adds on e's nodes, and those removals that now have room.
func (e *exchanger) clear() {
	changes := e.memory()
	for _, c := range changes {
		if c.count > 0 {
			e.p.shift(c.w, c.n, -c.count)
		}
	}
	for _, c := range changes {
		for back := c.count; back < 0 && e.p.total[c.w] < e.p.in.work[c.w].ideal && e.p.fits(c.w, c.n); back++ {
			e.p.shift(c.w, c.n, 1)
		}
	}
}

// restore puts a memory back.
func (e *exchanger) restore(before []remembered) {
	for _, c := range e.memory() {
		e.p.shift(c.w, c.n, -c.count)
	}
	for _, c := range before {
		e.p.shift(c.w, c.n, c.count)
	}
}

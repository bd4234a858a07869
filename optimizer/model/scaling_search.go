// SPDX-License-Identifier: Apache-2.0

package model

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

const (
	// exactPairs: with at most so many (workload, node) pairs the whole programme is solved, ties included.
	exactPairs = 1500
	// wholePairs: with at most so many, it is solved for its cost after the neighbourhoods.
	wholePairs = 40_000
	// A neighbourhood's size, its time, and how many in a row may find nothing.
	neighbourNodes, neighbourWork = 16, 40
	neighbourTime                 = 300 * time.Millisecond
	fruitless                     = 40
)

// scalingSearch holds the incumbent and what is proven of it.
type scalingSearch struct {
	in          *scaling
	best        *plan
	bound       float64 // of the cost
	leastShort  int     // proven
	deadline    time.Time
	limit       time.Duration
	nodes       []int32   // all
	hosts       [][]int32 // by node: workloads that run there
	small       bool
	costIsExact bool // the whole programme was solved to its end
}

func newScalingSearch(in *scaling, began time.Time) *scalingSearch {
	limit := time.Duration(in.s.Scaling.TimeLimit)
	f := &scalingSearch{in: in, limit: limit, deadline: began.Add(limit), small: len(in.work)*len(in.open) <= exactPairs}
	f.hosts = in.hosts()
	for n := range in.open {
		f.nodes = append(f.nodes, int32(n))
	}
	for i := range in.work {
		f.bound += in.work[i].cost(in.work[i].ideal, in.penalty)
		f.leastShort += max(0, in.work[i].low-in.work[i].ideal)
	}
	return f
}

func (f *scalingSearch) left() time.Duration { return time.Until(f.deadline) }

// proven says whether no plan is less short, or as short and cheaper.
func (f *scalingSearch) proven() bool {
	v := f.best.worth()
	return v.short <= f.leastShort && (f.costIsExact || compareNear(v.cost, f.bound) <= 0)
}

// run packs, improves the cost where it is not proven, then settles ties.
func (f *scalingSearch) run(ctx context.Context) error {
	f.best = f.in.heuristic()
	if !f.proven() {
		if err := f.improve(ctx); err != nil {
			return err
		}
	}
	f.best.settleTies(ctx, f.hosts, f.deadline)
	if f.small {
		return f.exactTies(ctx)
	}
	return nil
}

func (f *scalingSearch) improve(ctx context.Context) error {
	f.best.exchange(ctx, f.hosts, f.deadline)
	if f.small {
		return f.whole(ctx)
	}
	if err := f.pooledBound(ctx, f.limit/4); err != nil || f.proven() {
		return err
	}
	whole := len(f.in.work)*len(f.in.open) <= wholePairs
	until := f.deadline
	if whole {
		until = until.Add(-f.left() / 2)
	}
	if err := f.neighbourhoods(ctx, until); err != nil || f.proven() || !whole {
		return err
	}
	return f.whole(ctx)
}

// take makes p the incumbent where it is better.
func (f *scalingSearch) take(p *plan, compare func(a, b worth) int) bool {
	if p == nil || compare(p.worth(), f.best.worth()) >= 0 {
		return false
	}
	f.best = p
	return true
}

// whole solves the programme over all workloads and nodes: short, then cost.
func (f *scalingSearch) whole(ctx context.Context) error {
	g := newProgram(f.best, f.in.numbered(), f.nodes, false)
	if f.best.worth().short > f.leastShort {
		p, bound, _, err := g.solve(ctx, g.shortAim(), f.left()/2)
		if err != nil {
			return err
		}
		f.raiseShort(bound)
		f.take(p, worth.compareCost)
	}
	g.from = f.best
	g.keep(g.shortAim(), float64(f.best.worth().short))
	p, bound, proven, err := g.solve(ctx, g.costAim(), f.left())
	if err != nil {
		return err
	}
	f.bound = math.Max(f.bound, bound)
	taken := f.take(p, worth.compareCost)
	f.costIsExact = proven && p != nil && (taken || compareNear(p.worth().cost, f.best.worth().cost) == 0)
	return nil
}

// raiseShort rounds a bound of Σ short up.
func (f *scalingSearch) raiseShort(bound float64) {
	const integral = 1e-6
	if !math.IsInf(bound, 0) {
		f.leastShort = max(f.leastShort, int(math.Ceil(bound-integral)))
	}
}

// neighbourhoods solves small programmes around workloads that want more, until nothing more is found.
func (f *scalingSearch) neighbourhoods(ctx context.Context, until time.Time) error {
	r := rand.New(rand.NewPCG(1, 5))
	for failed := 0; failed < fruitless && time.Until(until) > 0 && ctx.Err() == nil && !f.proven(); failed++ {
		work, nodes := f.neighbourhood(r)
		if len(work) == 0 {
			return nil
		}
		g := newProgram(f.best, work, nodes, false)
		limit := min(neighbourTime, time.Until(until))
		if f.best.worth().short > f.leastShort {
			p, _, _, err := g.solve(ctx, g.shortAim(), limit)
			if err != nil {
				return err
			}
			if f.take(p, worth.compareCost) {
				failed = -1
				continue
			}
		}
		short := 0
		for _, w := range work {
			short += max(0, min(f.in.work[w].low, f.in.work[w].ideal)-f.best.total[w])
		}
		g.keep(g.shortAim(), float64(short))
		p, _, _, err := g.solve(ctx, g.costAim(), limit)
		if err != nil {
			return err
		}
		if f.take(p, worth.compareCost) {
			failed = -1
		}
	}
	return nil
}

// neighbourhood draws a few workloads that want pods, nodes for them, and what may make room there: first what the
// plan adds, then running pods above their minimum.
func (f *scalingSearch) neighbourhood(r *rand.Rand) (work, nodes []int32) {
	var wanting []int32
	for w := range f.in.work {
		if f.best.total[w] < f.in.work[w].ideal {
			wanting = append(wanting, int32(w))
		}
	}
	chosen := make(map[int32]bool)
	choose := func(w int32, most int) {
		if !chosen[w] && len(work) < most {
			chosen[w] = true
			work = append(work, w)
		}
	}
	for _, i := range r.Perm(len(wanting)) {
		choose(wanting[i], neighbourWork/4)
	}
	for _, i := range r.Perm(len(f.nodes)) {
		if n := f.nodes[i]; f.in.open[n] && len(nodes) < neighbourNodes {
			nodes = append(nodes, n)
		}
	}
	for _, n := range nodes {
		for _, w := range f.best.on[n] {
			choose(w, neighbourWork/2)
		}
	}
	for _, i := range r.Perm(len(nodes)) {
		for _, w := range f.hosts[nodes[i]] {
			if f.in.work[w].floor < f.best.total[w] {
				choose(w, neighbourWork)
			}
		}
	}
	slices.Sort(work)
	slices.Sort(nodes)
	return work, nodes
}

// exactTies solves the two tie-breaks as programmes, with short and cost kept.
func (f *scalingSearch) exactTies(ctx context.Context) error {
	g := newProgram(f.best, f.in.numbered(), f.nodes, f.best.whole())
	if len(g.columns) == 0 {
		return nil
	}
	if !g.fixed {
		v := f.best.worth()
		g.keep(g.shortAim(), float64(v.short))
		g.keep(g.costAim(), v.cost)
	}
	away := g.awayAim()
	p, _, _, err := g.solve(ctx, away, f.left()/2)
	if err != nil {
		return err
	}
	f.take(p, worth.compare)
	g.from = f.best
	g.keep(away, g.value(away, f.best))
	peak := g.peakAim()
	p, _, _, err = g.solve(ctx, peak, f.left())
	if err != nil {
		return err
	}
	f.take(p, worth.compare)
	return nil
}

// value is the aim at a plan.
func (g *program) value(o objective, p *plan) float64 {
	v := o.offset
	for j, x := range g.at(p) {
		v += o.cost[j] * x
	}
	return v
}

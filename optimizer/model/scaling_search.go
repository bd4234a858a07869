// SPDX-License-Identifier: Apache-2.0

package model

import (
	"context"
	"math"
	"time"
)

const (
	// exactPairs: with at most so many (workload, node) pairs the whole programme is solved, ties included.
	exactPairs = 1500
	// wholePairs: with at most so many, it is solved for its cost after the local search.
	wholePairs = 40_000
)

// scalingSearch holds the incumbent and what is proven of it.
type scalingSearch struct {
	in          *scaling
	best        *plan
	bound       float64 // of the cost of what is no shorter
	ideal       float64 // the least cost of what has all minima
	leastShort  int     // proven
	allMinima   int     // Σ short of what has all minima: 0 but for absurd ones
	deadline    time.Time
	limit       time.Duration
	nodes       []int32   // all
	hosts       [][]int32 // by node: workloads that run there
	small       bool
	costIsExact bool // the whole programme was solved to its end
}

// scalingReserve: this part of the time limit is for the explanation and the check.
const scalingReserve = 50

func newScalingSearch(in *scaling, began time.Time) *scalingSearch {
	limit := time.Duration(in.s.Scaling.TimeLimit)
	f := &scalingSearch{in: in, limit: limit, deadline: began.Add(limit - limit/scalingReserve), small: len(in.work)*len(in.open) <= exactPairs}
	f.hosts = in.hosts()
	for n := range in.open {
		f.nodes = append(f.nodes, int32(n))
	}
	for i := range in.work {
		w := &in.work[i]
		f.bound += w.least(in.penalty)
		f.ideal += w.cost(w.ideal, in.penalty)
		f.leastShort += max(0, w.low-w.ideal)
	}
	f.allMinima = f.leastShort
	return f
}

func (f *scalingSearch) left() time.Duration { return time.Until(f.deadline) }

// solverTime is what the whole programme may take: HiGHS overruns, and the ties follow.
func (f *scalingSearch) solverTime() time.Duration { return f.left() - f.limit/5 }

// proven says whether no plan is less short, or as short and cheaper.
func (f *scalingSearch) proven() bool {
	v := f.best.costs()
	return v.short <= f.leastShort && (f.costIsExact || compareNear(v.cost, f.lower(v.short)) <= 0)
}

// lower is the bound of the cost of plans that are no shorter.
func (f *scalingSearch) lower(short int) float64 {
	if short == f.allMinima {
		return math.Max(f.bound, f.ideal)
	}
	return f.bound
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
	newExchanger(f.best, f.hosts).settle(f.in.byDensity(), func() bool { return ctx.Err() != nil || f.left() < 0 })
	if f.small {
		f.shake(ctx, time.Now().Add(f.limit/10))
		return f.whole(ctx)
	}
	if err := f.pooledBound(ctx, f.limit/10); err != nil || f.proven() {
		return err
	}
	whole := len(f.in.work)*len(f.in.open) <= wholePairs
	until := f.deadline.Add(-f.limit / 20) // for the ties
	if whole {
		until = until.Add(-f.left() / 2)
	}
	f.shake(ctx, until)
	if f.proven() || !whole {
		return nil
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
		p, bound, _, err := g.solve(ctx, g.shortAim(), f.solverTime()/2)
		if err != nil {
			return err
		}
		f.raiseShort(bound)
		f.take(p, worth.compareCost)
	}
	g.from = f.best
	g.keep(g.shortAim(), float64(f.best.worth().short))
	p, bound, proven, err := g.solve(ctx, g.costAim(), f.solverTime())
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
	limit := min(f.left(), f.limit/10)
	p, _, _, err := g.solve(ctx, away, limit)
	if err != nil {
		return err
	}
	f.take(p, worth.compare)
	g.from = f.best
	g.keep(away, g.value(away, f.best))
	peak := g.peakAim()
	p, _, _, err = g.solve(ctx, peak, min(f.left(), limit))
	if err != nil {
		return err
	}
	f.take(p, worth.compare)
	return nil
}

// SPDX-License-Identifier: Apache-2.0

package model

import (
	"context"
	"fmt"
	"math"
	"time"
)

// Migrate plans which pods move to which nodes (design 4): it minimises
//
//	Σ_n var_k(r_nk) + clusterWeight · var_n(r_n) + moveCost · moves
//
// within the rooms of the targets, their allocatables, the migration time and the cap on moves. The plan is
// checked by the model's own code and is never worse than doing nothing; bound, below which no plan can come, is
// always told. Status is optimal where both meet within 1e-6. Migrate returns within the snapshot's time limit, or
// soon after ctx ends, with the best that it has; where it ends by itself, equal seeds give equal plans. It does
// not change s. Bad input is a FieldError.
func Migrate(ctx context.Context, s *Snapshot) (*MigrationDecision, error) {
	began := time.Now()
	if err := s.Validate(); err != nil {
		return nil, err
	}
	f, err := compileFleet(s)
	if err != nil {
		return nil, fmt.Errorf("migration: %w", err)
	}
	r := f.plan(ctx, began)
	d := r.decide()
	if err := checkMigration(s, d); err != nil {
		return nil, fmt.Errorf("migration: %w", err)
	}
	d.SolveMillis = float64(time.Since(began).Microseconds()) / 1000
	return d, nil
}

// Parts of the time limit: the bound ends first, and the end is for the explanation and the check.
const (
	boundShare  = 0.75
	solverShare = 0.93
)

// result is a plan and what is known about it.
type result struct {
	*search
	before        float64
	withinBefore  float64
	betweenBefore float64
	bound         float64
	least         float64 // value of the best plan, also where it gains too little to be taken
}

// plan searches and bounds side by side, then brings both together.
func (f *fleet) plan(ctx context.Context, began time.Time) *result {
	limit := time.Duration(f.s.Migration.TimeLimit)
	at := func(share float64) time.Time { return began.Add(time.Duration(share * float64(limit))) }
	c := clock{at(solverShare), ctx.Done()}
	ctx, cancel := context.WithDeadline(ctx, c.deadline)
	defer cancel()
	r := &result{search: newSearch(f, c)}
	r.before, r.least, r.withinBefore, r.betweenBefore = r.value, r.value, r.spread, r.between()
	if len(f.pods) == 0 || r.before <= settled {
		r.bound = r.before
		return r
	}
	warmth := r.warmth()
	r.greedy()
	bounds := startBounding(ctx, f, f.squares(), r.transfers(), c.until(at(boundShare)))
	r.anneal(r.steps(), warmth/5, warmth/5e4)
	m := bounds.wait(at(boundShare + 0.05))
	var g *pricing
	if g, r.hot = bounds.known(); g == nil {
		return r
	}
	r.bound = g.bound
	if !r.proven() {
		r.exploit(g)
	}
	if m != nil && !r.proven() {
		r.bound = math.Max(r.bound, r.polish(ctx, m, g))
	}
	return r
}

func (r *result) proven() bool { return r.best-r.bound <= closed*r.best }

// Steps of annealing per pod that may move, and the most and least of them: about 5 million pass in a second.
const (
	stepsPerPod = 400
	leastSteps  = 100_000
	mostSteps   = 3_000_000
)

func (r *result) steps() int {
	part := float64(r.f.s.Migration.TimeLimit) / 2e9
	return int(math.Min(math.Max(float64(stepsPerPod*len(r.f.pods)), leastSteps), mostSteps*math.Min(1, part)))
}

// exploit searches among the transfers that the linear programme took up.
func (r *result) exploit(g *pricing) {
	const rounds = 3
	warmth := r.warmth()
	for i := range rounds {
		r.anneal(r.steps(), warmth/5/math.Pow(4, float64(i)), warmth/5e4)
	}
}

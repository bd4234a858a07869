// SPDX-License-Identifier: Apache-2.0

package model

import (
	"math"
	"slices"
	"strings"
)

// decide turns a result into the plan that is published.
func (r *result) decide() *MigrationDecision {
	r.finish()
	r.prune()
	r.least = r.objective()
	r.takeEnough()
	value := math.Min(r.objective(), r.before)
	bound := math.Min(r.bound, value)
	d := &MigrationDecision{Status: StatusFeasible, Before: publish(r.before), After: publish(value),
		WithinNodes: publish(r.spread), BetweenNodes: publish(r.between()), Seconds: publish(r.time),
		Budget: publish(r.f.budget), Moves: r.moves()}
	if value-bound <= closed*value || value <= settled {
		d.Status, bound = StatusOptimal, value
	}
	d.Bound = publish(bound)
	if value > bound {
		d.Gap = publish((value - bound) / value)
		d.Left = publish((value - bound) / (r.before - bound))
	}
	d.Why = r.explain()
	return d
}

// prune takes back moves that gain nothing.
func (r *result) prune() {
	for again := true; again; {
		again = false
		for _, p := range slices.Sorted(slices.Values(r.moved)) {
			if r.delta(p, r.f.home[p]) <= settled {
				r.move(p, r.f.home[p])
				again = true
			}
		}
	}
	r.refresh()
}

// takeEnough gives the plan up where it gains less than minGain of before. Where no plan can gain as much, doing
// nothing is the optimum, and the bound says so.
func (r *result) takeEnough() {
	enough := r.before * (1 - r.f.s.Migration.MinGain) * (1 + fitTolerance)
	if r.objective() > enough {
		r.set(r.f.home)
	}
	proven := r.least-r.bound <= closed*r.least
	if r.bound > enough || (proven && r.least > enough) {
		r.bound = r.before
	}
}

// moves lists the plan by pod.
func (r *result) moves() []Move {
	s, f := r.f.s, r.f
	moves := make([]Move, 0, len(r.moved))
	for _, p := range r.moved {
		moves = append(moves, Move{Pod: s.Pods[f.pods[p]].Name, From: s.Nodes[f.nodes[f.home[p]]].Name,
			To: s.Nodes[f.nodes[r.at[p]]].Name, Seconds: publish(f.moveTime(p, r.at[p]))})
	}
	slices.SortFunc(moves, func(a, b Move) int { return strings.Compare(a.Pod, b.Pod) })
	return moves
}

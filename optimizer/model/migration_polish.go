// SPDX-License-Identifier: Apache-2.0

package model

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/edgeweir/weir/optimizer/highs"
)

// The most transfers that the integer programme decides on: where these are all that a better plan may hold, it
// proves a bound on every plan; else it only searches the most promising ones.
const (
	provable      = 1500
	neighbourhood = 300
)

// coarse is the part of the distance between plan and bound at which the solver first stops: what its plans teach of
// tangents is worth more than the rest of its proof.
const coarse = 0.01

// patience is how long an interrupted solver is waited for.
const patience = 50 * time.Millisecond

// polish solves the integer programme over the transfers that the bound leaves, or the most promising of them,
// and offers its plans to s. It returns the bound that it proves on all plans, 0 where it proves none.
func (s *search) polish(ctx context.Context, from *master, g *pricing) float64 {
	kept, all := s.promising(g)
	m := s.restrict(from, kept)
	proven := g.bound
	for gap := coarse * (s.best - proven) / s.best; !s.clock.over() && s.best-proven > closed*s.best; gap = closed / 10 {
		p := m.problem(true)
		p.Start = m.startAt(s)
		answer := s.solve(ctx, p, highs.Options{TimeLimit: s.clock.left(), RelativeGap: math.Max(gap, closed/10), Tolerance: 1e-9,
			Seed: s.f.s.Migration.Seed & math.MaxInt16})
		if answer == nil {
			break
		}
		if all {
			proven = math.Max(proven, math.Min(s.best, answer.Bound/m.scale))
		}
		if answer.X == nil {
			break
		}
		was := s.best
		if !s.learn(m, answer.X[m.fixed():]) && gap <= closed/10 {
			break // the tangents hold at the solver's best plan: it has told what it can
		}
		if s.best < was { // a better plan leaves fewer transfers
			kept, all = s.promising(g)
			m = s.restrict(m, kept)
		}
	}
	return proven
}

// solve gives the solver up soon after the clock: in presolve it may look at no clock for seconds, and ends then
// on its own. It returns nil where there is no answer.
func (s *search) solve(ctx context.Context, p *highs.Problem, o highs.Options) *highs.Solution {
	answer := make(chan *highs.Solution, 1)
	go func() {
		solution, err := highs.Solve(ctx, p, o)
		if err != nil {
			solution = nil
		}
		answer <- solution
	}()
	late := time.NewTimer(s.clock.left() + patience)
	defer late.Stop()
	select {
	case solution := <-answer:
		return solution
	case <-late.C:
	case <-s.clock.done:
	}
	select { // what ctx interrupted comes within moments
	case solution := <-answer:
		return solution
	case <-time.After(patience):
		return nil
	}
}

// learn offers the plan of a solution and makes the tangents at it; false when there is nothing to learn.
func (s *search) learn(m *master, z []float64) bool {
	at := slices.Clone(s.f.home)
	for i, t := range m.columns {
		z[i] = math.Round(z[i])
		if z[i] > 0 {
			at[t.pod] = t.to
		}
	}
	s.offer(at)
	u, _ := m.values(z)
	before := len(m.tangents)
	m.touchBelow(u)
	return len(m.tangents) > before
}

// touchBelow makes tangents at u where the present ones lie below.
func (m *master) touchBelow(u []float64) {
	t := m.envelope(u)
	for j := range u {
		if u[j]*u[j]-t[j] > 1e-9*math.Max(1, u[j]*u[j]) {
			m.touch(int32(j), u[j])
		}
	}
}

// promising lists the transfers that a better plan than s's may hold, by the bound, and says whether these are all.
// Where pods and nodes are many, it looks only at those that the linear programme took up. The transfers of s's plan
// are among them, so that it can be where the solver starts.
func (s *search) promising(g *pricing) (kept []transfer, all bool) {
	const most = 1_000_000
	f, top := s.f, s.best*(1-closed)
	consider := func(p, d int32) {
		if worth := g.with(f, p, d); worth < top && s.at[p] != d && f.allowed(p, d) {
			kept = append(kept, transfer{p, d, worth})
		}
	}
	all = len(f.pods)*len(f.nodes) <= most
	if all {
		for p := range f.pods {
			for _, d := range f.candidates(int32(p)) {
				consider(int32(p), d)
			}
		}
	} else {
		for _, t := range s.hot {
			consider(t.pod, t.to)
		}
	}
	if len(kept) > provable {
		all = false
	}
	if !all {
		slices.SortStableFunc(kept, func(a, b transfer) int { return cmp.Compare(a.worth, b.worth) })
		kept = kept[:min(len(kept), neighbourhood)]
	}
	return append(kept, s.transfers()...), all
}

// restrict is a master over the kept transfers, with all rows that they could break.
func (s *search) restrict(from *master, kept []transfer) *master {
	f := s.f
	m := newMaster(f, from.squares)
	for _, t := range kept {
		m.add(t)
	}
	m.zoom(s)
	for p := range f.pods {
		if len(m.byPod[p]) > 1 {
			m.name(podLimit, int32(p))
		}
	}
	for at := range f.room {
		room, free := 0.0, 0.0
		for _, i := range m.toNode[at/f.kinds] {
			of := int(m.columns[i].pod)*f.kinds + at%f.kinds
			room, free = room+f.demand[of], free+f.request[of]
		}
		if f.room[at] > 0 && room > f.room[at] {
			m.name(roomLimit, int32(at))
		}
		if f.free[at] > 0 && free > f.free[at] {
			m.name(freeLimit, int32(at))
		}
	}
	m.touchAround(from, s)
	return m
}

// zoom takes the size of s's values as the unit of u: the solver's tolerances are absolute, and a proof needs them to
// be small beside what is left of the objective.
func (m *master) zoom(s *search) {
	u, _ := m.values(m.plan(s))
	sum := 0.0
	for _, v := range u {
		sum += v * v
	}
	part := math.Max(1e-4, math.Sqrt(sum/float64(len(u))))
	m.sigma *= part
	m.scale /= part * part
	for i := range m.tangents {
		m.tangents[i].point /= part
	}
}

// touchAround makes the tangents that a better plan is likely to need: those of the linear programme, and some
// over the range that s's value leaves to each u.
func (m *master) touchAround(from *master, s *search) {
	for _, t := range from.tangents[len(m.squares):] {
		m.touch(t.square, t.point*from.sigma/m.sigma)
	}
	u, _ := m.values(m.plan(s))
	for j := range u {
		most := math.Sqrt(s.best/m.squares[j].weight) / m.sigma
		m.touch(int32(j), u[j])
		for _, part := range []float64{1. / 16, 1. / 8, 1. / 4, 1. / 2} {
			m.touch(int32(j), part*most)
			m.touch(int32(j), -part*most)
		}
	}
}

// plan is z of s's placement.
func (m *master) plan(s *search) []float64 {
	z := make([]float64, len(m.columns))
	for i, t := range m.columns {
		if s.at[t.pod] == t.to {
			z[i] = 1
		}
	}
	return z
}

// startAt is the whole point of s's placement.
func (m *master) startAt(s *search) []float64 {
	z := m.plan(s)
	u, _ := m.values(z)
	x := make([]float64, 0, m.fixed()+len(z))
	x = append(x, u...)
	for _, v := range u {
		x = append(x, v*v)
	}
	if m.slack {
		mean := 0.0
		for n := range s.level {
			mean += (s.level[n] - m.mean) / float64(len(s.level))
		}
		x = append(x, mean/m.sigma)
	}
	return append(x, z...)
}

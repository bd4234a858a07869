// SPDX-License-Identifier: Apache-2.0

package model

import (
	"container/heap"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// settled: a step must gain more than this, so that rounding is no gain.
const settled = 1e-14

// transfer is pod p to node d, with what it is worth to whoever made it (below 0 is a gain).
type transfer struct {
	pod, to int32
	worth   float64
}

// clock ends work at a deadline or by a caller's word.
type clock struct {
	deadline time.Time
	done     <-chan struct{}
}

func (c clock) over() bool {
	select {
	case <-c.done:
		return true
	default:
		return !time.Now().Before(c.deadline)
	}
}

func (c clock) left() time.Duration { return max(time.Millisecond, time.Until(c.deadline)) }

// until is the clock that ends at an earlier deadline.
func (c clock) until(deadline time.Time) clock { return clock{deadline, c.done} }

// search improves a placement and remembers the best that it saw. It never looks at the time but to stop, so
// that equal seeds give equal plans when it ends by itself.
type search struct {
	*placement
	rand   *rand.Rand
	clock  clock
	value  float64 // objective of the placement, by deltas
	best   float64
	bestAt []int32
	fresh  bool // the placement itself is the best, and at is not yet
	hot    []transfer
}

func newSearch(f *fleet, c clock) *search {
	s := &search{placement: newPlacement(f), clock: c, rand: rand.New(rand.NewPCG(uint64(f.s.Migration.Seed), 0))}
	s.value = s.objective()
	s.best, s.bestAt = s.value, slices.Clone(s.at)
	return s
}

// take makes a step whose delta is known.
func (s *search) take(p, to int32, d float64) {
	s.keep(d)
	s.move(p, to)
	s.account(d)
}

// keep copies the best placement before a step away from it.
func (s *search) keep(d float64) {
	if s.fresh && d > 0 {
		copy(s.bestAt, s.at)
		s.fresh = false
	}
}

func (s *search) account(d float64) {
	s.value += d
	if s.value < s.best-settled {
		s.best, s.fresh = s.value, true
	}
}

// finish goes to the best placement and sums it anew.
func (s *search) finish() {
	if s.fresh {
		copy(s.bestAt, s.at)
		s.fresh = false
	}
	s.set(s.bestAt)
	s.value = s.objective()
	s.best = s.value
}

// offer takes a placement from elsewhere when it is feasible and better.
func (s *search) offer(at []int32) bool {
	s.finish()
	s.placement.set(at)
	if s.feasible() {
		if v := s.objective(); v < s.best-settled {
			s.value, s.best = v, v
			copy(s.bestAt, at)
			return true
		}
	}
	s.placement.set(s.bestAt)
	return false
}

// shifts is a heap of transfers, best first; ties by pod.
type shifts []transfer

func (h shifts) Len() int { return len(h) }
func (h shifts) Less(i, j int) bool {
	return h[i].worth < h[j].worth || (h[i].worth == h[j].worth && h[i].pod < h[j].pod)
}
func (h shifts) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

// Push and Pop are heap.Interface's.
func (h *shifts) Push(x any) { *h = append(*h, x.(transfer)) }

// Pop takes the last.
func (h *shifts) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// greedy takes the best transfers one by one. What a transfer is worth changes with those before it, so the
// best is priced anew before it is taken.
func (s *search) greedy() {
	h := make(shifts, 0, len(s.at))
	for p := range s.at {
		if p%64 == 0 && s.clock.over() {
			break
		}
		if t := s.bestOf(int32(p)); t.worth < -settled {
			h = append(h, t)
		}
	}
	heap.Init(&h)
	for rounds := 20*len(s.at) + 1000; len(h) > 0 && rounds > 0; rounds-- {
		if rounds%64 == 0 && s.clock.over() {
			break
		}
		if len(s.moved) >= s.f.maxMoves && s.place[h[0].pod] < 0 {
			heap.Pop(&h)
			continue
		}
		t := s.bestOf(h[0].pod)
		switch {
		case t.worth >= -settled:
			heap.Pop(&h)
			continue
		case t.worth <= h[0].worth*(1-1e-9) || len(h) == 1 || !h[1:].anyBefore(t):
			s.take(t.pod, t.to, t.worth)
			t = s.bestOf(t.pod)
		}
		if h[0] = t; t.worth >= -settled {
			heap.Pop(&h)
		} else {
			heap.Fix(&h, 0)
		}
	}
}

// anyBefore says whether the tail of a heap holds a better transfer than t: only its first two can be best.
func (h shifts) anyBefore(t transfer) bool {
	return h[0].worth < t.worth || (len(h) > 1 && h[1].worth < t.worth)
}

// bestOf is p's best feasible transfer from where it is; worth 0 where none gains.
func (s *search) bestOf(p int32) transfer {
	best := transfer{pod: p, to: s.at[p]}
	consider := func(d int32) {
		if d == s.at[p] {
			return
		}
		if w := s.delta(p, d); w < best.worth && s.fits(p, d) {
			best.to, best.worth = d, w
		}
	}
	for _, d := range s.f.candidates(p) {
		consider(d)
	}
	if s.place[p] >= 0 && s.f.targets[p] != nil {
		consider(s.f.home[p])
	}
	return best
}

// transfers lists the moves of the placement, by pod.
func (s *search) transfers() []transfer {
	out := make([]transfer, 0, len(s.moved))
	for p, d := range s.at {
		if d != s.f.home[p] {
			out = append(out, transfer{pod: int32(p), to: d})
		}
	}
	return out
}

// anneal makes so many random steps while the temperature falls from hot to cold, geometrically.
func (s *search) anneal(steps int, hot, cold float64) {
	if len(s.f.pods) == 0 || hot <= 0 {
		return
	}
	temperature, cooling := hot, math.Pow(cold/hot, 256/float64(steps))
	for i := range steps {
		if i%256 == 0 {
			if s.clock.over() {
				break
			}
			temperature *= cooling
		}
		if i%(1<<16) == 0 {
			s.refresh()
			s.value = s.objective()
		}
		if s.rand.IntN(4) == 0 {
			s.swap(temperature)
		} else {
			s.step(temperature)
		}
	}
	s.finish()
}

// accepts is Metropolis' rule.
func (s *search) accepts(d, temperature float64) bool {
	return d <= 0 || s.rand.Float64() < math.Exp(-d/temperature)
}

// propose draws a transfer: of a moved pod, of the hot ones, or any.
func (s *search) propose() (p, to int32) {
	switch draw := s.rand.IntN(10); {
	case draw < 3 && len(s.moved) > 0:
		p = s.moved[s.rand.IntN(len(s.moved))]
	case draw < 8 && len(s.hot) > 0:
		t := s.hot[s.rand.IntN(len(s.hot))]
		return t.pod, t.to
	default:
		p = int32(s.rand.IntN(len(s.f.pods)))
	}
	c := s.f.candidates(p)
	return p, c[s.rand.IntN(len(c))]
}

// step tries one transfer; where a cap or a room is in its way, it takes the place of another move.
func (s *search) step(temperature float64) {
	p, to := s.propose()
	if to == s.at[p] {
		to = s.f.home[p]
	}
	if to == s.at[p] {
		return
	}
	if s.fits(p, to) {
		if d := s.delta(p, to); s.accepts(d, temperature) {
			s.take(p, to, d)
		}
		return
	}
	if len(s.moved) > 0 && s.f.allowed(p, to) {
		s.replace(s.moved[s.rand.IntN(len(s.moved))], p, to, temperature)
	}
}

// replace undoes q's move for p's.
func (s *search) replace(q, p, to int32, temperature float64) {
	if q == p {
		return
	}
	was, home := s.at[q], s.f.home[q]
	d := s.delta(q, home)
	s.keep(1)
	s.move(q, home)
	if s.fits(p, to) {
		if d += s.delta(p, to); s.accepts(d, temperature) {
			s.move(p, to)
			s.account(d)
			return
		}
	}
	s.move(q, was)
}

// swap tries to let two pods change places.
func (s *search) swap(temperature float64) {
	p, b := s.propose()
	q := int32(s.rand.IntN(len(s.f.pods)))
	if len(s.moved) > 0 && s.rand.IntN(2) == 0 {
		q = s.moved[s.rand.IntN(len(s.moved))]
	}
	a := s.at[p]
	if s.rand.IntN(2) == 0 {
		b = s.at[q]
	}
	if a == b || p == q || s.at[q] == a || !s.fits(p, b) {
		return
	}
	d := s.delta(p, b)
	s.keep(1)
	s.move(p, b)
	if s.fits(q, a) {
		if d += s.delta(q, a); s.accepts(d, temperature) {
			s.move(q, a)
			s.account(d)
			return
		}
	}
	s.move(p, a)
}

// warmth is the mean size of a random transfer's delta.
func (s *search) warmth() float64 {
	const samples = 256
	sum, n := 0.0, 0
	for range samples {
		if p, to := s.propose(); to != s.at[p] {
			sum += math.Abs(s.delta(p, to))
			n++
		}
	}
	if n == 0 {
		return 0
	}
	return sum / float64(n)
}

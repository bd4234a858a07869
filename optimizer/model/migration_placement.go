// SPDX-License-Identifier: Apache-2.0

package model

// placement is where every pod of a fleet is now, with all sums that price a move in O(K). The objective is
//
//	Σ_n var_k(r_nk) + clusterWeight · var_n(r_n) + moveCost · moves
type placement struct {
	f        *fleet
	at       []int32   // by pod
	load     []float64 // node × resource: r_nk
	within   []float64 // by node: var_k(r_nk)
	level    []float64 // by node: r_n
	came     []float64 // node × resource: demand that arrived
	asked    []float64 // node × resource: requests that arrived
	moved    []int32   // pods away from home, in no order
	place    []int32   // by pod: its position in moved, −1 at home
	shift    float64   // levels are summed less this, so that their squares don't cancel
	spread   float64   // Σ within
	sum      float64   // Σ (level − shift)
	squares  float64   // Σ (level − shift)²
	time     float64   // seconds of all moves
	perNode  float64   // 1/N
	cluster  float64   // clusterWeight
	moveCost float64
}

// newPlacement has every pod at home.
func newPlacement(f *fleet) *placement {
	n, k := len(f.nodes), f.kinds
	s := &placement{f: f, at: make([]int32, len(f.pods)), place: make([]int32, len(f.pods)),
		load: make([]float64, n*k), came: make([]float64, n*k), asked: make([]float64, n*k),
		within: make([]float64, n), level: make([]float64, n),
		cluster: f.s.Migration.ClusterWeight, moveCost: f.s.Migration.MoveCost}
	if n > 0 {
		s.perNode = 1 / float64(n)
	}
	copy(s.at, f.home)
	s.refresh()
	return s
}

// refresh sums everything anew from the pods' places, which takes the rounding of many steps away.
func (s *placement) refresh() {
	f, k := s.f, s.f.kinds
	copy(s.load, f.load)
	clear(s.came)
	clear(s.asked)
	s.moved, s.time = s.moved[:0], 0
	for p := range s.at {
		s.place[p] = -1
		if s.at[p] != f.home[p] {
			s.enter(int32(p), s.at[p])
			s.shiftLoad(int32(p), f.home[p], -1)
			s.shiftLoad(int32(p), s.at[p], 1)
		}
	}
	s.spread, s.sum, s.squares, s.shift = 0, 0, 0, 0
	for n := range s.within {
		s.within[n], s.level[n] = f.measure(s.load[n*k:n*k+k], int32(n))
		s.shift += s.level[n] * s.perNode
		s.spread += s.within[n]
	}
	for _, level := range s.level {
		s.sum += level - s.shift
		s.squares += (level - s.shift) * (level - s.shift)
	}
}

// measure is var_k(r_nk) and r_n of loads r.
func (f *fleet) measure(r []float64, n int32) (within, level float64) {
	sum, squares := 0.0, 0.0
	weight := f.weight[int(n)*f.kinds:]
	for k, v := range r {
		sum += v // a resource without capacity has v = 0
		squares += v * v
		level += weight[k] * v
	}
	mean := sum / f.kindsOf[n]
	return max(0, squares/f.kindsOf[n]-mean*mean), level
}

// measureWith is measure after p came (sign 1) or went (−1).
func (s *placement) measureWith(p, n int32, sign float64) (within, level float64) {
	f := s.f
	k, at, of := f.kinds, int(n)*f.kinds, int(p)*f.kinds
	load, unit, weight, demand := s.load[at:at+k], f.unit[at:at+k], f.weight[at:at+k], f.demand[of:of+k]
	sum, squares := 0.0, 0.0
	for i, v := range load {
		v += sign * demand[i] * unit[i]
		sum += v
		squares += v * v
		level += weight[i] * v
	}
	mean := sum / f.kindsOf[n]
	return max(0, squares/f.kindsOf[n]-mean*mean), level
}

// objective is the value of the present placement.
func (s *placement) objective() float64 {
	return s.spread + s.cluster*s.between() + s.moveCost*float64(len(s.moved))
}

// between is var_n(r_n).
func (s *placement) between() float64 {
	mean := s.sum * s.perNode
	return max(0, s.squares*s.perNode-mean*mean)
}

// delta is what the objective gains (below 0) or loses when p goes to node `to`, another than its present one.
func (s *placement) delta(p, to int32) float64 {
	from := s.at[p]
	w1, l1 := s.measureWith(p, from, -1)
	w2, l2 := s.measureWith(p, to, 1)
	o1, o2 := s.level[from]-s.shift, s.level[to]-s.shift
	l1, l2 = l1-s.shift, l2-s.shift
	sum := s.sum + l1 - o1 + l2 - o2
	squares := l1*l1 - o1*o1 + l2*l2 - o2*o2
	mean, before := sum*s.perNode, s.sum*s.perNode
	d := w1 - s.within[from] + w2 - s.within[to] + s.cluster*(squares*s.perNode-mean*mean+before*before)
	switch home := s.f.home[p]; {
	case from == home:
		d += s.moveCost
	case to == home:
		d -= s.moveCost
	}
	return d
}

// fits says whether p may go to node `to` as things are: home always, elsewhere within rooms and caps.
func (s *placement) fits(p, to int32) bool {
	f := s.f
	if to == f.home[p] {
		return true
	}
	if s.place[p] < 0 && len(s.moved) >= f.maxMoves {
		return false
	}
	at, of := int(to)*f.kinds, int(p)*f.kinds
	for k := range f.kinds {
		if s.came[at+k]+f.demand[of+k] > f.room[at+k]*(1+fitTolerance) ||
			s.asked[at+k]+f.request[of+k] > f.free[at+k]*(1+fitTolerance) {
			return false
		}
	}
	time := s.time + f.moveTime(p, to)
	if s.place[p] >= 0 {
		time -= f.moveTime(p, s.at[p])
	}
	return time <= f.budget*(1+fitTolerance) && f.allowed(p, to)
}

// move takes p to node `to` and keeps all sums.
func (s *placement) move(p, to int32) {
	from := s.at[p]
	if from == to {
		return
	}
	s.shiftLoad(p, from, -1)
	s.shiftLoad(p, to, 1)
	s.leave(p)
	s.at[p] = to
	if to != s.f.home[p] {
		s.enter(p, to)
	}
	s.remeasure(from)
	s.remeasure(to)
}

func (s *placement) shiftLoad(p, n int32, sign float64) {
	f := s.f
	for k := range f.kinds {
		s.load[int(n)*f.kinds+k] += sign * f.demand[int(p)*f.kinds+k] * f.unit[int(n)*f.kinds+k]
	}
}

func (s *placement) remeasure(n int32) {
	k := s.f.kinds
	within, level := s.f.measure(s.load[int(n)*k:int(n)*k+k], n)
	was, is := s.level[n]-s.shift, level-s.shift
	s.spread += within - s.within[n]
	s.sum += is - was
	s.squares += is*is - was*was
	s.within[n], s.level[n] = within, level
}

// enter books p's arrival at n, away from home.
func (s *placement) enter(p, n int32) {
	s.place[p] = int32(len(s.moved))
	s.moved = append(s.moved, p)
	s.book(p, n, 1)
}

// leave takes p's arrival back, where there was one.
func (s *placement) leave(p int32) {
	i := s.place[p]
	if i < 0 {
		return
	}
	last := s.moved[len(s.moved)-1]
	s.moved[i], s.place[last] = last, i
	s.moved, s.place[p] = s.moved[:len(s.moved)-1], -1
	s.book(p, s.at[p], -1)
}

func (s *placement) book(p, n int32, sign float64) {
	f := s.f
	for k := range f.kinds {
		s.came[int(n)*f.kinds+k] += sign * f.demand[int(p)*f.kinds+k]
		s.asked[int(n)*f.kinds+k] += sign * f.request[int(p)*f.kinds+k]
	}
	s.time += sign * f.moveTime(p, n)
}

// set takes every pod to where `at` says.
func (s *placement) set(at []int32) {
	copy(s.at, at)
	s.refresh()
}

// feasible says whether the whole placement keeps every room and cap, summed anew.
func (s *placement) feasible() bool {
	s.refresh()
	f := s.f
	if len(s.moved) > f.maxMoves || s.time > f.budget*(1+fitTolerance) {
		return false
	}
	for i := range s.came {
		if s.came[i] > f.room[i]*(1+fitTolerance) || s.asked[i] > f.free[i]*(1+fitTolerance) {
			return false
		}
	}
	for _, p := range s.moved {
		if !f.allowed(p, s.at[p]) {
			return false
		}
	}
	return true
}

// SPDX-License-Identifier: Apache-2.0

package model

import (
	"cmp"
	"math"
	"slices"
)

// chooser picks a node with room for one more pod of w, −1 where there is none.
type chooser func(p *plan, w int32) int32

// nearest is the node of the largest share of w's demand, the least utilised of equals.
func nearest(p *plan, w int32) int32 {
	work := &p.in.work[w]
	best, share, level := int32(-1), 0.0, inf
	for _, i := range work.byShare {
		s := work.shares[i]
		if best >= 0 && s.share < share {
			return best
		}
		if !p.fits(w, s.node) {
			continue
		}
		if u := p.utilisation(s.node, w, 1); best < 0 || u < level {
			best, share, level = s.node, s.share, u
		}
	}
	if best >= 0 {
		return best
	}
	for n := range int32(len(p.in.open)) { // those with a share are full
		if p.fits(w, n) {
			if u := p.utilisation(n, w, 1); best < 0 || u < level {
				best, level = n, u
			}
		}
	}
	return best
}

// first is the first node in the snapshot's order.
func first(p *plan, w int32) int32 {
	for n := range int32(len(p.in.open)) {
		if p.fits(w, n) {
			return n
		}
	}
	return -1
}

// tightest is the node that the pod fills most.
func tightest(p *plan, w int32) int32 {
	best, level := int32(-1), math.Inf(-1)
	for n := range int32(len(p.in.open)) {
		if p.fits(w, n) {
			if u := p.utilisation(n, w, 1); u > level {
				best, level = n, u
			}
		}
	}
	return best
}

// pack shrinks what is too large, then adds pods in the given order of workloads: first up to the minima, then up
// to the ideals.
func (in *scaling) pack(order []int32, choose chooser) *plan {
	p := in.newPlan()
	for w := range in.work {
		for p.total[w] > in.work[w].ideal {
			p.shift(int32(w), p.farthest(int32(w)), -1)
		}
	}
	for _, minima := range []bool{true, false} {
		for _, w := range order {
			work := &in.work[w]
			target := work.ideal
			if minima {
				target = min(work.low, work.ideal)
			}
			p.grow(w, target, choose)
		}
	}
	return p
}

// grow adds pods of w until it has target or none fits. Of thousands it adds some at once: an absurd demand must not
// take long.
func (p *plan) grow(w int32, target int, choose chooser) {
	const steps = 1000
	for p.total[w] < target {
		n := choose(p, w)
		if n < 0 {
			return
		}
		count := max(1, (target-p.total[w])/steps)
		if !p.fitsMany(w, n, count) {
			count = 1
		}
		p.shift(w, n, count)
	}
}

// farthest is the node from which w loses a pod: the least share of demand, the most utilised of equals.
func (p *plan) farthest(w int32) int32 {
	work := &p.in.work[w]
	best, away, level := int32(-1), 0.0, 0.0
	for _, s := range work.at {
		if s.count+p.delta(w, s.node) <= 0 {
			continue
		}
		a, u := work.away(s.node), p.utilisation(s.node, 0, 0)
		if best < 0 || a > away || a == away && u > level {
			best, away, level = s.node, a, u
		}
	}
	return best
}

// decreasing orders workloads by size, the largest first.
func (in *scaling) decreasing() []int32 {
	order := in.numbered()
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(in.work[b].size, in.work[a].size) })
	return order
}

// byDensity orders workloads by the penalty that a pod saves for its size, the largest first.
func (in *scaling) byDensity() []int32 {
	order := in.numbered()
	slices.SortStableFunc(order, func(a, b int32) int {
		x, y := &in.work[a], &in.work[b]
		return cmp.Compare(y.gain(in.penalty)*x.size, x.gain(in.penalty)*y.size)
	})
	return order
}

// gain is what a whole pod saves.
func (w *workload) gain(penalty float64) float64 {
	return penalty*math.Min(w.sla, w.demand) - w.energy - w.deploy
}

func (in *scaling) numbered() []int32 {
	order := make([]int32, len(in.work))
	for w := range order {
		order[w] = int32(w)
	}
	return order
}

// heuristic is the best of several packings, first-fit decreasing among them.
func (in *scaling) heuristic() *plan {
	sizes := in.decreasing()
	best := in.pack(sizes, nearest)
	if best.whole() {
		return best
	}
	density := in.byDensity()
	for _, try := range []struct {
		order  []int32
		choose chooser
	}{{sizes, first}, {sizes, tightest}, {density, first}, {density, tightest}, {density, nearest}} {
		p := in.pack(try.order, try.choose)
		if p.worth().compare(best.worth()) < 0 {
			best = p
		}
		if best.whole() {
			return best
		}
	}
	return best
}

// whole says whether every workload is where it would be alone, which proves the cost.
func (p *plan) whole() bool {
	for w := range p.in.work {
		if p.total[w] != p.in.work[w].ideal {
			return false
		}
	}
	return true
}

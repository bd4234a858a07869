// SPDX-License-Identifier: Apache-2.0

package model

import (
	"context"
	"time"
)

const (
	awayTolerance = 1e-12 // of the first tie-break, per pod
	nearNodes     = 8     // nodes nearer than a pod's own from which others are pushed away for it
	tiePasses     = 20
	levelSteps    = 2000
)

// settleTies moves changes between nodes, totals kept: first nearer to the demand, then off the fullest node.
func (p *plan) settleTies(ctx context.Context, hosts [][]int32, deadline time.Time) {
	late := func() bool { return ctx.Err() != nil || time.Until(deadline) < 0 }
	for pass := 0; pass < tiePasses; pass++ {
		moved := false
		for w := range p.change {
			if late() {
				return
			}
			for _, s := range append([]spot(nil), p.change[w]...) {
				for i := 0; i < max(s.count, -s.count) && p.nearer(int32(w), s); i++ {
					moved = true
				}
			}
		}
		if !moved {
			break
		}
	}
	for step := 0; step < levelSteps && !late(); step++ {
		if !p.lower(hosts) {
			return
		}
	}
}

// nearer moves one changed pod of w from s to a better node.
func (p *plan) nearer(w int32, s spot) bool {
	if s.count < 0 {
		return p.restoreNearer(w, s.node)
	}
	work := &p.in.work[w]
	away, tried := work.away(s.node), 0
	for _, i := range work.byShare {
		n := work.shares[i].node
		switch {
		case 1-work.shares[i].share >= away-awayTolerance:
			return false
		case p.fits(w, n):
			p.shift(w, s.node, -1)
			p.shift(w, n, 1)
			return true
		case tried < nearNodes && p.in.open[n]:
			tried++
			if p.push(w, s.node, n) {
				return true
			}
		}
	}
	return false
}

// restoreNearer puts a removed pod of w back at n and takes one from a node that is farther.
func (p *plan) restoreNearer(w, n int32) bool {
	work := &p.in.work[w]
	if !p.fits(w, n) {
		return false
	}
	farthest, most := int32(-1), work.away(n)+awayTolerance
	for _, s := range work.at {
		if away := work.away(s.node); away > most && s.count+p.delta(w, s.node) > 0 {
			farthest, most = s.node, away
		}
	}
	if farthest < 0 {
		return false
	}
	p.shift(w, n, 1)
	p.shift(w, farthest, -1)
	return true
}

// push moves a pod of w from one node to another where an added pod of another workload makes room for it, if the
// two together come nearer.
func (p *plan) push(w, from, to int32) bool {
	gain := p.in.work[w].away(from) - p.in.work[w].away(to)
	for _, other := range append([]int32(nil), p.on[to]...) {
		if other == w || p.delta(other, to) <= 0 {
			continue
		}
		p.shift(other, to, -1)
		if p.fits(w, to) {
			p.shift(w, from, -1)
			p.shift(w, to, 1)
			n := nearest(p, other)
			if n >= 0 && p.in.work[other].away(n)-p.in.work[other].away(to) < gain-awayTolerance {
				p.shift(other, n, 1)
				return true
			}
			p.shift(w, to, -1)
			p.shift(w, from, 1)
		}
		p.shift(other, to, 1)
	}
	return false
}

// hosts lists, by node, the workloads that have pods there.
func (in *scaling) hosts() [][]int32 {
	out := make([][]int32, len(in.open))
	for w := range in.work {
		for _, s := range in.work[w].at {
			out[s.node] = append(out[s.node], int32(w))
		}
	}
	return out
}

// lower takes one pod off the fullest node, to where it is as near and nothing gets as full.
func (p *plan) lower(hosts [][]int32) bool {
	hot, level := int32(-1), 0.0
	for n := range int32(len(p.in.open)) {
		if u := p.utilisation(n, 0, 0); p.in.open[n] && u > level {
			hot, level = n, u
		}
	}
	if hot < 0 {
		return false
	}
	for _, w := range p.on[hot] {
		if p.delta(w, hot) <= 0 {
			continue
		}
		if n := p.cooler(w, hot, level); n >= 0 {
			p.shift(w, hot, -1)
			p.shift(w, n, 1)
			return true
		}
	}
	for _, w := range hosts[hot] {
		if p.restoreElsewhere(w, hot, level) {
			return true
		}
	}
	return false
}

// cooler is the node as near as hot on which a pod of w leads to the least utilisation below level, −1 if none.
func (p *plan) cooler(w, hot int32, level float64) int32 {
	work := &p.in.work[w]
	away, best := work.away(hot), int32(-1)
	for n := range int32(len(p.in.open)) {
		if d := work.away(n) - away; n == hot || d > awayTolerance || d < -awayTolerance || !p.fits(w, n) {
			continue
		}
		if u := p.utilisation(n, w, 1); u < level-awayTolerance {
			best, level = n, u
		}
	}
	return best
}

// restoreElsewhere takes a pod of w from hot instead of from a node that is as near.
func (p *plan) restoreElsewhere(w, hot int32, level float64) bool {
	work := &p.in.work[w]
	if work.here(hot)+p.delta(w, hot) <= 0 {
		return false
	}
	for _, s := range p.change[w] {
		d := work.away(s.node) - work.away(hot)
		if s.count >= 0 || s.node == hot || d > awayTolerance || d < -awayTolerance || !p.fits(w, s.node) ||
			p.utilisation(s.node, w, 1) >= level-awayTolerance {
			continue
		}
		p.shift(w, s.node, 1)
		p.shift(w, hot, -1)
		return true
	}
	return false
}

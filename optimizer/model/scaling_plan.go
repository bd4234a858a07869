// SPDX-License-Identifier: Apache-2.0

package model

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// scaling is a snapshot compiled for the scaling model. Matrices over (node, resource) are flat, row by row.
type scaling struct {
	s         *Snapshot
	resources int
	penalty   float64
	work      []workload
	demandOf  []float64 // λ_l, by service
	open      []bool    // by node: may take pods
	free      []float64 // free_nk ≥ 0; +Inf where unlimited
	size      []float64 // allocatable, else capacity; +Inf where unlimited
	base      []float64 // requested, else used
}

// compileScaling resolves names and rooms.
func compileScaling(s *Snapshot) (*scaling, error) {
	known, err := s.index()
	if err != nil {
		return nil, fmt.Errorf("snapshot: %w", err)
	}
	in := &scaling{s: s, resources: len(s.Resources), penalty: s.Scaling.UnmetPenalty}
	in.compileRooms()
	if err := in.compileWorkloads(known); err != nil {
		return nil, err
	}
	in.compileSizes()
	return in, nil
}

func (in *scaling) compileRooms() {
	n := len(in.s.Nodes) * in.resources
	in.open = make([]bool, len(in.s.Nodes))
	in.free, in.size, in.base = make([]float64, n), make([]float64, n), make([]float64, n)
	for i := range in.s.Nodes {
		node := &in.s.Nodes[i]
		in.open[i] = node.Ready
		for k, name := range in.s.Resources {
			at := i*in.resources + k
			in.size[at] = inf
			if v, ok := node.Allocatable[name]; ok {
				in.size[at], in.base[at] = v, node.Requested[name]
			} else if v, ok := node.Capacity[name]; ok {
				in.size[at], in.base[at] = v, node.Used[name]
			}
			in.free[at] = math.Max(0, in.size[at]-in.base[at])
		}
	}
}

// compileSizes measures a pod by its largest part of what the open nodes have.
func (in *scaling) compileSizes() {
	total := make([]float64, in.resources)
	for n := range in.open {
		for k := range total {
			if in.open[n] {
				total[k] += in.size[n*in.resources+k]
			}
		}
	}
	for i := range in.work {
		w := &in.work[i]
		for k, p := range w.request {
			if total[k] > 0 {
				w.size = math.Max(w.size, p/total[k])
			}
		}
	}
}

// plan is a set of changes x − x'. left_nk is what remains free: free_nk − Σ_w (x_wn − x'_wn) p_wk.
type plan struct {
	in     *scaling
	change [][]spot // by workload, none of 0, in no order
	total  []int    // x_w
	left   []float64
	on     [][]int32 // by node: workloads that change there, in no order
}

func (in *scaling) newPlan() *plan {
	p := &plan{in: in, change: make([][]spot, len(in.work)), total: make([]int, len(in.work)),
		left: slices.Clone(in.free), on: make([][]int32, len(in.open))}
	for w := range in.work {
		p.total[w] = in.work[w].current
	}
	return p
}

func (p *plan) clone() *plan {
	c := &plan{in: p.in, total: slices.Clone(p.total), left: slices.Clone(p.left),
		change: make([][]spot, len(p.change)), on: make([][]int32, len(p.on))}
	for w := range p.change {
		c.change[w] = slices.Clone(p.change[w])
	}
	for n := range p.on {
		c.on[n] = slices.Clone(p.on[n])
	}
	return c
}

// delta is x_wn − x'_wn.
func (p *plan) delta(w, n int32) int {
	for _, s := range p.change[w] {
		if s.node == n {
			return s.count
		}
	}
	return 0
}

// shift adds count pods of w to n, or takes them away.
func (p *plan) shift(w, n int32, count int) {
	if count == 0 {
		return
	}
	p.total[w] += count
	for k, r := range p.in.work[w].request {
		p.left[int(n)*p.in.resources+k] -= r * float64(count)
	}
	at := slices.IndexFunc(p.change[w], func(s spot) bool { return s.node == n })
	if at < 0 {
		p.change[w] = append(p.change[w], spot{n, count})
		p.on[n] = append(p.on[n], w)
		return
	}
	if p.change[w][at].count += count; p.change[w][at].count == 0 {
		p.change[w] = slices.Delete(p.change[w], at, at+1)
		i := slices.Index(p.on[n], w)
		p.on[n] = slices.Delete(p.on[n], i, i+1)
	}
}

// fits says whether one more pod of w has room on n.
func (p *plan) fits(w, n int32) bool { return p.fitsMany(w, n, 1) }

func (p *plan) fitsMany(w, n int32, count int) bool {
	if !p.in.open[n] {
		return false
	}
	base := int(n) * p.in.resources
	for k, r := range p.in.work[w].request {
		if r > 0 && r*float64(count) > p.left[base+k]+p.in.slack(base+k) {
			return false
		}
	}
	return true
}

// slack is fillTolerance in the unit of node × resource at.
func (in *scaling) slack(at int) float64 {
	if math.IsInf(in.size[at], 1) {
		return 0
	}
	return fillTolerance * in.size[at]
}

// utilisation is n's highest, over resources, after `more` further pods of w.
func (p *plan) utilisation(n, w int32, more int) float64 {
	u := 0.0
	for k := range p.in.resources {
		at := int(n)*p.in.resources + k
		size := p.in.size[at]
		if size == 0 || math.IsInf(size, 1) {
			continue
		}
		used := p.in.base[at] + p.in.free[at] - p.left[at]
		if more != 0 {
			used += float64(more) * p.in.work[w].request[k]
		}
		u = math.Max(u, used/size)
	}
	return u
}

// worth of a plan: plans are compared by short, then cost, then away, then peak.
type worth struct {
	short int
	cost  float64 // penalty included
	away  float64 // Σ x_wn (1 − λ_wn/λ_w), of the changes alone: the rest is the same for all plans
	peak  float64 // the highest utilisation of an open node
}

// tieTolerance: costs and tie-breaks this near are the same, relative.
const tieTolerance = 1e-9

func compareNear(a, b float64) int {
	if math.Abs(a-b) <= tieTolerance*math.Max(1, math.Max(math.Abs(a), math.Abs(b))) {
		return 0
	}
	return cmp.Compare(a, b)
}

func (a worth) compare(b worth) int {
	return cmp.Or(a.compareCost(b), compareNear(a.away, b.away), compareNear(a.peak, b.peak))
}

func (a worth) compareCost(b worth) int {
	return cmp.Or(cmp.Compare(a.short, b.short), compareNear(a.cost, b.cost))
}

func (p *plan) worth() worth {
	v := p.costs()
	for i := range p.in.work {
		for _, s := range p.change[i] {
			v.away += float64(s.count) * p.in.work[i].away(s.node)
		}
	}
	v.peak = p.peak()
	return v
}

// costs is worth without the tie-breaks.
func (p *plan) costs() (v worth) {
	for i := range p.in.work {
		w := &p.in.work[i]
		v.short += max(0, w.low-p.total[i])
		v.cost += w.cost(p.total[i], p.in.penalty)
	}
	return v
}

func (p *plan) peak() float64 {
	peak := 0.0
	for n := range p.in.open {
		if p.in.open[n] {
			peak = math.Max(peak, p.utilisation(int32(n), 0, 0))
		}
	}
	return peak
}

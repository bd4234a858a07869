// SPDX-License-Identifier: Apache-2.0

package model

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"
)

// pools is how many kinds of nodes the pooled programme tells apart.
const pools = 4

// pooledBound bounds short and cost by the programme in which nodes of one kind are one large node: a relaxation
// whose size does not grow with the nodes. Its linear relaxation comes first: it is sure to end. Kinds go by which resource is the scarcer; nodes on which nothing more
// can fit are closed.
func (f *scalingSearch) pooledBound(ctx context.Context, limit time.Duration) error {
	pooled, kind := f.in.pool(pools)
	p := pooled.newPlan()
	for w := range f.best.change {
		for _, s := range f.best.change[w] {
			p.shift(int32(w), kind[s.node], s.count)
		}
	}
	nodes := make([]int32, len(pooled.open))
	for n := range nodes {
		nodes[n] = int32(n)
	}
	g := newProgram(p, pooled.numbered(), nodes, false)
	if short := p.worth().short; short > f.leastShort {
		f.raiseShort(g.relaxed(ctx, g.shortAim(), limit))
		_, bound, _, err := g.solve(ctx, g.shortAim(), limit/2)
		if err != nil {
			return err
		}
		f.raiseShort(bound)
	}
	g.keep(g.shortAim(), float64(p.worth().short))
	f.bound = math.Max(f.bound, g.relaxed(ctx, g.costAim(), 3*limit))
	_, bound, _, err := g.solve(ctx, g.costAim(), limit)
	if err != nil {
		return err
	}
	f.bound = math.Max(f.bound, bound)
	return nil
}

// pool merges the nodes into `kinds` of open ones and a closed one, which is the last; kind is by node.
func (in *scaling) pool(kinds int) (pooled *scaling, kind []int32) {
	credit := newProgram(in.newPlan(), in.numbered(), nil, false).credits()
	kind = in.kinds(kinds, credit)
	pooled = &scaling{s: in.s, resources: in.resources, penalty: in.penalty, open: make([]bool, kinds+1)}
	n := (kinds + 1) * in.resources
	pooled.free, pooled.size, pooled.base = make([]float64, n), make([]float64, n), make([]float64, n)
	for i := range kinds {
		pooled.open[i] = true
	}
	for n, to := range kind {
		for k := range in.resources {
			a, b := int(to)*in.resources+k, n*in.resources+k
			pooled.free[a] += in.free[b]
			pooled.size[a] += in.size[b]
			pooled.base[a] += in.base[b]
		}
	}
	pooled.work = slices.Clone(in.work)
	for i := range pooled.work {
		w := &pooled.work[i]
		merged := make([]int, kinds+1)
		for _, s := range w.at {
			merged[kind[s.node]] += s.count
		}
		w.at = nil
		for n, count := range merged {
			if count > 0 {
				w.at = append(w.at, spot{int32(n), count})
			}
		}
	}
	return pooled, kind
}

// kinds sorts the nodes that can take something by how much scarcer their first resource is than their last.
func (in *scaling) kinds(kinds int, credit []float64) []int32 {
	out := make([]int32, len(in.open))
	closed := int32(kinds)
	var usable []int32
	for n := range in.open {
		out[n] = closed
		if in.usable(n, credit) {
			usable = append(usable, int32(n))
		}
	}
	lean := func(n int32) float64 {
		if in.resources < 2 {
			return 0
		}
		return in.part(int(n)*in.resources) - in.part(int(n+1)*in.resources-1)
	}
	slices.SortStableFunc(usable, func(a, b int32) int { return cmp.Compare(lean(a), lean(b)) })
	for i, n := range usable {
		out[n] = int32(i * kinds / len(usable))
	}
	return out
}

// part is how much of a node's resource is free.
func (in *scaling) part(at int) float64 {
	if in.size[at] == 0 || math.IsInf(in.size[at], 1) {
		return 1
	}
	return in.free[at] / in.size[at]
}

// usable says whether a pod of some workload that wants more would fit on n once all that may leave has left.
func (in *scaling) usable(n int, credit []float64) bool {
	if !in.open[n] {
		return false
	}
	for i := range in.work {
		if w := &in.work[i]; w.ideal > w.current && in.holds(int32(i), int32(n), in.free, credit) > 0 {
			return true
		}
	}
	return false
}

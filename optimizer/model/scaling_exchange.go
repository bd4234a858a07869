// SPDX-License-Identifier: Apache-2.0

package model

const (
	exchangePasses = 50
	mostEvicted    = 3 // pods that one pod may displace
)

// exchanger improves a full plan: a pod that is wanted takes the place of up to mostEvicted pods of one node which
// together are worth less, added ones or running ones above their floor.
type exchanger struct {
	p     *plan
	hosts [][]int32
	nodes []int32 // those that it looks at
	short float64 // what a pod below the minimum is worth: more than all cost
	need  []float64
}

func newExchanger(p *plan, hosts [][]int32) *exchanger {
	e := &exchanger{p: p, hosts: hosts, short: 1, need: make([]float64, p.in.resources)}
	for i := range p.in.work {
		e.short += p.in.work[i].cost(0, p.in.penalty) + p.in.work[i].cost(p.in.work[i].ideal, p.in.penalty)
	}
	for n := range int32(len(p.in.open)) {
		if p.in.open[n] {
			e.nodes = append(e.nodes, n)
		}
	}
	return e
}

// settle serves the workloads in turn until no exchange is found. Every one lowers short, or keeps it and lowers
// the cost. late ends it early.
func (e *exchanger) settle(order []int32, late func() bool) {
	for range exchangePasses {
		moved := false
		for _, w := range order {
			if late() {
				return
			}
			for e.p.total[w] < e.p.in.work[w].ideal && e.place(w) {
				moved = true
			}
		}
		if !moved {
			return
		}
	}
}

// worth is what the pod after the x-th of w saves.
func (e *exchanger) worth(w int32, x int) float64 {
	work := &e.p.in.work[w]
	v := work.cost(x, e.p.in.penalty) - work.cost(x+1, e.p.in.penalty)
	if x < work.low {
		v += e.short
	}
	return v
}

// place gives w one more pod on the node where that saves most, and says whether it saves anything.
func (e *exchanger) place(w int32) bool {
	p, gain := e.p, e.worth(w, e.p.total[w])
	where, saved := int32(-1), tieTolerance*max(1, gain)
	var out [mostEvicted]int32
	var evicted []int32
	try := func(n int32) {
		if loss, list := e.evict(w, n, out[:0], gain-saved); gain-loss > saved {
			where, saved = n, gain-loss
			evicted = append(evicted[:0], list...)
		}
	}
	back := p.total[w] < p.in.work[w].current // then pods may only come back where they were
	for _, n := range e.nodes {
		if !back || p.delta(w, n) < 0 {
			try(n)
		}
	}
	if where < 0 {
		return false
	}
	for _, other := range evicted {
		p.shift(other, where, -1)
	}
	p.shift(w, where, 1)
	return true
}

// evict chooses pods on n that leave room for one of w, each time the one that costs least for what it frees. The
// loss is +Inf where there are none, or where it would pass most.
func (e *exchanger) evict(w, n int32, out []int32, most float64) (loss float64, chosen []int32) {
	p, kk := e.p, e.p.in.resources
	lacks := false
	for k, r := range p.in.work[w].request {
		at := int(n)*kk + k
		e.need[k] = 0
		if lack := r - p.left[at] - p.in.slack(at); r > 0 && lack > 0 {
			e.need[k], lacks = lack, true
		}
	}
	for lacks {
		if len(out) == mostEvicted {
			return inf, nil
		}
		best, ratio, cost := int32(-1), inf, 0.0
		for _, list := range [2][]int32{p.on[n], e.hosts[n]} {
			for _, other := range list {
				if other == w {
					continue
				}
				if c, freed := e.price(other, n, out); freed > 0 && c/freed < ratio {
					best, ratio, cost = other, c/freed, c
				}
			}
		}
		if loss += cost; best < 0 || loss >= most {
			return inf, nil
		}
		out = append(out, best)
		lacks = false
		for k, r := range p.in.work[best].request {
			e.need[k] = max(0, e.need[k]-r)
			lacks = lacks || e.need[k] > 0
		}
	}
	return loss, out
}

// price is what taking a pod of w from n costs beside those in out, and how much of the need it frees; 0 where no
// pod may leave.
func (e *exchanger) price(w, n int32, out []int32) (cost, freed float64) {
	p, work := e.p, &e.p.in.work[w]
	x, here := p.total[w], p.delta(w, n)
	for _, other := range out {
		if other == w {
			x, here = x-1, here-1
		}
	}
	if here <= 0 && (x > work.current || work.here(n)+here <= 0) || x <= work.floor {
		return 0, 0
	}
	for k, r := range work.request {
		if e.need[k] > 0 {
			freed += min(1, r/e.need[k])
		}
	}
	return e.worth(w, x-1), freed
}

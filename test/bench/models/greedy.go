// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"slices"

	"github.com/edgeweir/weir/optimizer/model"
)

// deviation is how far from the mean a node's utilisation of a resource may be: descheduler's
// useDeviationThresholds, with 10 points both ways.
const deviation = 0.1

// balancer works as descheduler's LowNodeUtilization does: nodes above the upper threshold in some resource, the most
// loaded first, give pods away until they are below it; nodes below the lower threshold in all take them, the least
// loaded first, as the scheduler's LeastAllocated would. Rooms and the cap on moves are those of the model.
type balancer struct {
	s    *model.Snapshot
	used []model.Quantities // by node
	room []model.Quantities // departures are not credited
	pods [][]int            // by node
}

// lowNodeUtilisation balances s and reports the objective of the migration model. It reads what migrationInstance
// makes: all nodes ready, pods free to move, nothing to pull.
func lowNodeUtilisation(s *model.Snapshot) measure {
	b := newBalancer(s)
	low, high := b.thresholds()
	most := s.Migration.MaxMoves
	if most == 0 {
		most = len(s.Pods)
	}
	moves := 0
	for _, n := range b.byLoad(func(n int) bool { return b.anyAbove(n, high) }) {
		for _, p := range slices.Clone(b.pods[n]) {
			if moves == most || !b.anyAbove(n, high) {
				break
			}
			if to := b.target(p, low, high); to >= 0 {
				b.move(p, n, to)
				moves++
			}
		}
	}
	within, between := b.spread()
	return measure{Status: "heuristic", Objective: within + s.Migration.ClusterWeight*between, BetweenNodes: between, Moves: moves}
}

func newBalancer(s *model.Snapshot) *balancer {
	b := &balancer{s: s, used: make([]model.Quantities, len(s.Nodes)), room: make([]model.Quantities, len(s.Nodes)),
		pods: make([][]int, len(s.Nodes))}
	at := make(map[string]int)
	for n := range s.Nodes {
		at[s.Nodes[n].Name] = n
		b.used[n], b.room[n] = model.Quantities{}, model.Quantities{}
		for _, k := range s.Resources {
			b.used[n][k] = s.Nodes[n].Used[k]
			b.room[n][k] = math.Max(0, s.Nodes[n].Capacity[k]-s.Nodes[n].Used[k])
		}
	}
	for p := range s.Pods {
		n := at[s.Pods[p].Node]
		b.pods[n] = append(b.pods[n], p)
	}
	return b
}

// part is how much of k is used on n.
func (b *balancer) part(n int, k string) float64 { return b.used[n][k] / b.s.Nodes[n].Capacity[k] }

// load is the mean over resources.
func (b *balancer) load(n int) float64 {
	sum := 0.0
	for _, k := range b.s.Resources {
		sum += b.part(n, k)
	}
	return sum / float64(len(b.s.Resources))
}

func (b *balancer) thresholds() (low, high model.Quantities) {
	low, high = model.Quantities{}, model.Quantities{}
	for _, k := range b.s.Resources {
		mean := 0.0
		for n := range b.s.Nodes {
			mean += b.part(n, k) / float64(len(b.s.Nodes))
		}
		low[k], high[k] = mean-deviation, mean+deviation
	}
	return low, high
}

func (b *balancer) anyAbove(n int, limit model.Quantities) bool {
	return slices.ContainsFunc(b.s.Resources, func(k string) bool { return b.part(n, k) > limit[k] })
}

// byLoad lists the nodes that pass, the most loaded first.
func (b *balancer) byLoad(pass func(int) bool) []int {
	var out []int
	for n := range b.s.Nodes {
		if pass(n) {
			out = append(out, n)
		}
	}
	slices.SortStableFunc(out, func(x, y int) int {
		switch a, c := b.load(x), b.load(y); {
		case a > c:
			return -1
		case a < c:
			return 1
		}
		return 0
	})
	return out
}

// target is the least loaded node that was below the lower threshold, has room for p and stays below the upper one;
// −1 where there is none.
func (b *balancer) target(p int, low, high model.Quantities) int {
	best, least := -1, math.Inf(1)
	for n := range b.s.Nodes {
		if b.anyAbove(n, low) || !holds(b.room[n], b.s.Pods[p].Used) || b.load(n) >= least {
			continue
		}
		if !slices.ContainsFunc(b.s.Resources, func(k string) bool {
			return b.part(n, k)+b.s.Pods[p].Used[k]/b.s.Nodes[n].Capacity[k] > high[k]
		}) {
			best, least = n, b.load(n)
		}
	}
	return best
}

func (b *balancer) move(p, from, to int) {
	take(b.used[from], b.s.Pods[p].Used, 1)
	take(b.used[to], b.s.Pods[p].Used, -1)
	take(b.room[to], b.s.Pods[p].Used, 1)
	b.pods[from] = slices.DeleteFunc(b.pods[from], func(q int) bool { return q == p })
	b.pods[to] = append(b.pods[to], p)
}

// spread is Σ_n var_k(r_nk) and var_n(r_n).
func (b *balancer) spread() (within, between float64) {
	loads := make([]float64, len(b.s.Nodes))
	for n := range b.s.Nodes {
		parts := make([]float64, len(b.s.Resources))
		for i, k := range b.s.Resources {
			parts[i] = b.part(n, k)
		}
		loads[n] = b.load(n)
		within += variance(parts)
	}
	return within, variance(loads)
}

func variance(v []float64) float64 {
	mean, sum := 0.0, 0.0
	for _, x := range v {
		mean += x / float64(len(v))
	}
	for _, x := range v {
		sum += (x - mean) * (x - mean)
	}
	return sum / float64(len(v))
}

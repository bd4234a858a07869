// SPDX-License-Identifier: Apache-2.0

package model

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

const (
	// mostReplicas caps what one workload may ask for: no cluster runs more, and counts stay small.
	mostReplicas = 1_000_000
	// fillTolerance is how far, relative to a node's size, sums of requests may pass what is free: 3 × 0.1 is 0.3.
	fillTolerance = 1e-9
	// needTolerance: λ/sla this near above a whole number needs no further pod, relative.
	needTolerance = 1e-9
)

// workload is what is scaled: one or more service ports over the same pods.
type workload struct {
	services       []int32
	tightest       int32 // the port with the largest λ_l/sla_l: whatever x is, none is served a smaller part
	demand, sla    float64
	energy, deploy float64   // ω_e m, ω_o j
	request        []float64 // p_k
	size           float64   // the largest part of the cluster's capacity that a pod asks for
	low, high      int       // max(1, min), max; high at most mostReplicas
	floor          int       // min(low, current): pods that run are not taken away below the minimum
	current        int       // x'
	ideal          int       // least x of least cost in low..high: where the workload would be alone
	at             []spot    // x'_n, by node
	shares         []nodeShare
	byShare        []int32 // indices of shares, largest share first
}

// spot is a number of pods on a node, or a change of it.
type spot struct {
	node  int32
	count int
}

// nodeShare is λ_n/λ, above 0.
type nodeShare struct {
	node  int32
	share float64
}

// unmet is λ − sla·x where that is more than rounding.
func (w *workload) unmet(x int) float64 {
	left := w.demand - w.sla*float64(x)
	if left <= needTolerance*w.demand {
		return 0
	}
	return left
}

// cost is ω_e m x + ω_o j max(0, x − x') + penalty · unmet(x): convex in x.
func (w *workload) cost(x int, penalty float64) float64 {
	return w.energy*float64(x) + w.deploy*float64(max(0, x-w.current)) + penalty*w.unmet(x)
}

// settle finds ideal: a convex function on whole numbers is least at a kink, or beside one.
func (w *workload) settle(penalty float64) {
	top := min(w.high, max(w.low, w.wanted()))
	w.ideal = min(w.low, w.high)
	best := w.cost(w.ideal, penalty)
	kinks := []int{min(w.current, top), top - 1, top}
	slices.Sort(kinks)
	for _, x := range kinks {
		if c := w.cost(x, penalty); x > w.ideal && c < best-1e-12*math.Abs(best) {
			w.ideal, best = x, c
		}
	}
}

// least is the least cost from floor to ideal: below a minimum that does not fit, too.
func (w *workload) least(penalty float64) float64 {
	least := w.cost(w.ideal, penalty)
	for _, x := range []int{w.floor, w.current, w.wanted() - 1, w.wanted()} {
		least = math.Min(least, w.cost(min(max(x, w.floor), w.ideal), penalty))
	}
	return least
}

// wanted is ceil(λ/sla), at most mostReplicas.
func (w *workload) wanted() int {
	pods := w.demand / w.sla
	return int(math.Min(math.Ceil(pods-needTolerance*pods), mostReplicas))
}

// here is x'_n.
func (w *workload) here(n int32) int {
	i, ok := slices.BinarySearchFunc(w.at, n, func(s spot, n int32) int { return cmp.Compare(s.node, n) })
	if !ok {
		return 0
	}
	return w.at[i].count
}

// away is 1 − λ_n/λ: what the first tie-break pays for a pod at n.
func (w *workload) away(n int32) float64 {
	i, ok := slices.BinarySearchFunc(w.shares, n, func(s nodeShare, n int32) int { return cmp.Compare(s.node, n) })
	if !ok {
		return 1
	}
	return 1 - w.shares[i].share
}

// compileWorkloads groups the scaled services by workload name, or, where pods carry no such name, by the pods
// that serve them.
func (in *scaling) compileWorkloads(known names) error {
	byName := make(map[string]int)
	pods := in.podsByWorkload(known)
	byPods := make(map[string]int)
	for l := range in.s.Services {
		v := &in.s.Services[l]
		if v.SLATasksPerPod == 0 {
			continue
		}
		i, ok := byName[v.Workload]
		if !ok {
			key := fmt.Sprint(pods[v.Workload])
			if i, ok = byPods[key]; !ok || len(pods[v.Workload]) == 0 {
				i = len(in.work)
				in.work = append(in.work, workload{at: in.spots(pods[v.Workload], known)})
				byPods[key] = i
			}
			byName[v.Workload] = i
		}
		in.work[i].services = append(in.work[i].services, int32(l))
	}
	in.demandOf = in.demands(known)
	for i := range in.work {
		w := &in.work[i]
		if err := in.compileWorkload(w); err != nil {
			return err
		}
		w.settle(in.penalty)
	}
	in.compileShares(known)
	return nil
}

// podsByWorkload lists, for each workload name of a scaled service, the pods that carry it; where none does, those
// that serve its services.
func (in *scaling) podsByWorkload(known names) map[string][]int32 {
	out := make(map[string][]int32)
	for l := range in.s.Services {
		if v := &in.s.Services[l]; v.SLATasksPerPod > 0 {
			out[v.Workload] = nil
		}
	}
	serving := make(map[string][]int32)
	for p := range in.s.Pods {
		pod := &in.s.Pods[p]
		if list, ok := out[pod.Workload]; ok {
			out[pod.Workload] = append(list, int32(p))
		}
		for _, name := range pod.Services {
			key := in.s.Services[known.services[name]].Workload
			if list := serving[key]; len(list) == 0 || list[len(list)-1] != int32(p) {
				serving[key] = append(list, int32(p))
			}
		}
	}
	for name, list := range out {
		if len(list) == 0 {
			out[name] = serving[name]
		}
	}
	return out
}

func (in *scaling) spots(pods []int32, known names) []spot {
	var out []spot
	for _, p := range pods {
		out = append(out, spot{known.nodes[in.s.Pods[p].Node], 1})
	}
	slices.SortFunc(out, func(a, b spot) int { return cmp.Compare(a.node, b.node) })
	merged := out[:0]
	for _, s := range out {
		if n := len(merged); n > 0 && merged[n-1].node == s.node {
			merged[n-1].count++
			continue
		}
		merged = append(merged, s)
	}
	return merged
}

// demands are λ_l over the slice, by service.
func (in *scaling) demands(known names) []float64 {
	out := make([]float64, len(in.s.Services))
	for i := range in.s.Arrivals {
		a := &in.s.Arrivals[i]
		out[known.services[a.Service]] += a.SliceTasks
	}
	return out
}

// compileWorkload takes, over the ports: the tightest's demand, the narrowest bounds, the largest costs and requests.
func (in *scaling) compileWorkload(w *workload) error {
	w.request = make([]float64, in.resources)
	w.low, w.high, w.tightest = 1, mostReplicas, -1
	least := int32(0) // the port that sets high
	for _, l := range w.services {
		v := &in.s.Services[l]
		if w.tightest < 0 || in.demandOf[l]/v.SLATasksPerPod > w.demand/w.sla {
			w.tightest, w.demand, w.sla = l, in.demandOf[l], v.SLATasksPerPod
		}
		w.low = max(w.low, v.MinReplicas)
		if v.MaxReplicas > 0 && v.MaxReplicas < w.high {
			w.high, least = v.MaxReplicas, l
		}
		w.energy = math.Max(w.energy, in.s.Scaling.EnergyWeight*v.EnergyCost)
		w.deploy = math.Max(w.deploy, in.s.Scaling.DeployWeight*v.DeployCost)
		for k, name := range in.s.Resources {
			w.request[k] = math.Max(w.request[k], v.PodRequest[name])
		}
	}
	for _, s := range w.at {
		w.current += s.count
	}
	if w.low > w.high && w.high < mostReplicas {
		return fmt.Errorf("scaling: workload %s: minReplicas %d is above maxReplicas %d of %s: %w",
			in.s.Services[least].Workload, w.low, w.high, in.s.Services[least].Name, ErrInfeasible)
	}
	w.floor = min(w.low, w.current, w.high)
	return nil
}

// compileShares fills λ_n/λ of each workload's tightest port.
func (in *scaling) compileShares(known names) {
	owner := make([]int32, len(in.s.Services)) // 1 + the workload whose tightest port it is
	for i := range in.work {
		owner[in.work[i].tightest] = int32(i) + 1
	}
	for i := range in.s.Arrivals {
		a := &in.s.Arrivals[i]
		if o := owner[known.services[a.Service]]; o > 0 && a.SliceTasks > 0 {
			w := &in.work[o-1]
			w.shares = append(w.shares, nodeShare{known.nodes[a.Node], a.SliceTasks / w.demand})
		}
	}
	for i := range in.work {
		w := &in.work[i]
		slices.SortFunc(w.shares, func(a, b nodeShare) int { return cmp.Compare(a.node, b.node) })
		w.byShare = make([]int32, len(w.shares))
		for j := range w.byShare {
			w.byShare[j] = int32(j)
		}
		slices.SortStableFunc(w.byShare, func(a, b int32) int {
			return cmp.Compare(w.shares[b].share, w.shares[a].share)
		})
	}
}

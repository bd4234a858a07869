// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"math"
)

// Tolerances of the certificate, relative.
const (
	feasibleTolerance = 1e-6
	boundTolerance    = 1e-6
)

// splitTasks is, by split, the admitted tasks that it splits.
func (in *instance) splitTasks() []float64 {
	out := make([]float64, len(in.splits))
	for i := range in.arrivals {
		out[in.arrivals[i].split] += in.arrivals[i].admitted
	}
	return out
}

// load is pod × resource: what the admitted tasks use.
func (in *instance) load() []float64 {
	kk := in.resources
	out := make([]float64, len(in.s.Pods)*kk)
	for s, tasks := range in.splitTasks() {
		l := int(in.classes[in.splitClass[s]].service)
		for _, v := range in.splits[s] {
			for k := range kk {
				out[int(v.pod)*kk+k] += in.cost[l*kk+k] * v.share * tasks
			}
		}
	}
	return out
}

// roomLeft is how many more tasks of l fit into p beside the load.
func (in *instance) roomLeft(l, p int32, load []float64) float64 {
	kk, most := in.resources, inf
	for k := range kk {
		if r := in.cost[int(l)*kk+k]; r > 0 {
			most = math.Min(most, math.Max(0, in.room[int(p)*kk+k]-load[int(p)*kk+k])/r)
		}
	}
	return most
}

// utilisation is u_p under a load, and the resource that gives it (−1: no level).
func (in *instance) utilisation(p int32, load []float64) (float64, int) {
	kk, level, at := in.resources, 0.0, -1
	for k := range kk {
		i := int(p)*kk + k
		if !in.levelled(i, k) {
			continue
		}
		if u := (in.base[i] + load[i]) / in.size[i]; at < 0 || u > level {
			level, at = u, k
		}
	}
	return level, at
}

// certify checks the decision against the model in its original terms, by arithmetic that shares nothing with
// the solver: shares are shares, arrivals are not exceeded, every capacity holds, and with all demand counted
// the served tasks reach the bound.
func (in *instance) certify(served, bound float64) error {
	for i := range in.arrivals {
		a := &in.arrivals[i]
		if !(a.admitted >= 0) || a.admitted > a.tasks*(1+feasibleTolerance) {
			return fmt.Errorf("arrival %s at %s: admitted %v of %v: %w", in.s.Arrivals[i].Service, in.s.Arrivals[i].Node,
				a.admitted, a.tasks, ErrUncertified)
		}
		if a.admitted > 0 && len(in.splits[a.split]) == 0 {
			return fmt.Errorf("arrival %s at %s: admitted %v without pods: %w", in.s.Arrivals[i].Service,
				in.s.Arrivals[i].Node, a.admitted, ErrUncertified)
		}
	}
	if err := in.certifySplits(); err != nil {
		return err
	}
	if err := in.certifyRooms(); err != nil {
		return err
	}
	if in.s.Dispatch.Shortage == ShortageThroughput && math.Abs(served-bound) > boundTolerance*math.Max(1, bound) {
		return fmt.Errorf("served %v, bound %v: %w", served, bound, ErrUncertified)
	}
	if served > bound*(1+boundTolerance) {
		return fmt.Errorf("served %v above the bound %v: %w", served, bound, ErrUncertified)
	}
	return nil
}

func (in *instance) certifySplits() error {
	member := make([]int32, len(in.s.Pods)) // 1 + the class last seen to have the pod
	for s := range in.splits {
		c := in.splitClass[s]
		for _, p := range in.classes[c].pods {
			member[p] = c + 1
		}
		sum := 0.0
		for _, v := range in.splits[s] {
			sum += v.share
			if !(v.share >= 0) || member[v.pod] != c+1 || !in.takes(v.pod) {
				return fmt.Errorf("split of %s: pod %s, share %v: %w", in.s.Services[in.classes[c].service].Name,
					in.s.Pods[v.pod].Name, v.share, ErrUncertified)
			}
		}
		if len(in.splits[s]) > 0 && math.Abs(sum-1) > feasibleTolerance {
			return fmt.Errorf("split of %s: shares sum to %v: %w", in.s.Services[in.classes[c].service].Name, sum, ErrUncertified)
		}
	}
	return nil
}

// certifyRooms checks pods, overcommitted CPUs and networks. Slack is relative to the capacity, or to the load
// where that is larger.
func (in *instance) certifyRooms() error {
	kk, load := in.resources, in.load()
	cpu, net := make([]float64, len(in.s.Nodes)), make([]float64, len(in.s.Nodes))
	over := func(load, room float64) bool { return load > room+feasibleTolerance*math.Max(room, math.Min(load, 1)) }
	for p := range in.s.Pods {
		for k, name := range in.s.Resources {
			if i := p*kk + k; over(load[i], in.room[i]) {
				return fmt.Errorf("pod %s: %s %v of %v: %w", in.s.Pods[p].Name, name, load[i], in.room[i], ErrUncertified)
			}
		}
		if in.cpu >= 0 {
			cpu[in.podNode[p]] += load[p*kk+in.cpu]
		}
	}
	for i := range in.arrivals {
		a := &in.arrivals[i]
		net[a.node] += in.netCost[in.classes[a.class].service] * a.admitted
	}
	for n := range in.s.Nodes {
		if over(cpu[n], in.cpuRoom[n]) {
			return fmt.Errorf("node %s: cpu %v of %v: %w", in.s.Nodes[n].Name, cpu[n], in.cpuRoom[n], ErrUncertified)
		}
		if over(net[n], in.netRoom[n]) {
			return fmt.Errorf("node %s: network %v of %v: %w", in.s.Nodes[n].Name, net[n], in.netRoom[n], ErrUncertified)
		}
	}
	return nil
}

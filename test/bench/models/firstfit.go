// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"math"
	"slices"

	"github.com/edgeweir/weir/optimizer/model"
)

// firstFitDecreasing sizes every service for its demand, shrinks what is too large, and puts what is missing on the
// first node with room, the largest requests first. It reads what scalingInstance makes: one service a workload,
// allocatable and requested given.
func firstFitDecreasing(s *model.Snapshot) measure {
	node := make(map[string]int)
	left := make([]model.Quantities, len(s.Nodes))
	for n := range s.Nodes {
		node[s.Nodes[n].Name] = n
		left[n] = model.Quantities{}
		for _, k := range s.Resources {
			left[n][k] = math.Max(0, s.Nodes[n].Allocatable[k]-s.Nodes[n].Requested[k])
		}
	}
	pods, demand := make(map[string][]int), make(map[string]float64)
	for p := range s.Pods {
		pods[s.Pods[p].Workload] = append(pods[s.Pods[p].Workload], node[s.Pods[p].Node])
	}
	for i := range s.Arrivals {
		demand[s.Arrivals[i].Service] += s.Arrivals[i].SliceTasks
	}
	total, wanted := make([]int, len(s.Services)), make([]int, len(s.Services))
	order := make([]int, len(s.Services))
	for l := range s.Services {
		v := &s.Services[l]
		order[l], total[l] = l, len(pods[v.Workload])
		wanted[l] = min(max(1, v.MinReplicas, int(math.Ceil(demand[v.Name]/v.SLATasksPerPod))), v.MaxReplicas)
		for ; total[l] > wanted[l]; total[l]-- {
			take(left[pods[v.Workload][total[l]-1]], v.PodRequest, -1)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(s.Services[b].PodRequest["cpu"], s.Services[a].PodRequest["cpu"])
	})
	for _, l := range order {
		for ; total[l] < wanted[l]; total[l]++ {
			n := slices.IndexFunc(left, func(q model.Quantities) bool { return holds(q, s.Services[l].PodRequest) })
			if n < 0 {
				break
			}
			take(left[n], s.Services[l].PodRequest, 1)
		}
	}
	m := measure{Status: "heuristic"}
	for l := range s.Services {
		v := &s.Services[l]
		m.Penalty += s.Scaling.UnmetPenalty * math.Max(0, demand[v.Name]-v.SLATasksPerPod*float64(total[l]))
		m.Objective += s.Scaling.EnergyWeight*v.EnergyCost*float64(total[l]) +
			s.Scaling.DeployWeight*v.DeployCost*float64(max(0, total[l]-len(pods[v.Workload])))
	}
	m.Objective += m.Penalty
	return m
}

func holds(have, want model.Quantities) bool {
	for k, v := range want {
		if v > have[k]*(1+1e-9) {
			return false
		}
	}
	return true
}

func take(from, what model.Quantities, times float64) {
	for k, v := range what {
		from[k] -= times * v
	}
}

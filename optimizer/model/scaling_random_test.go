// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"math/rand/v2"

	"pgregory.net/rapid"
)

// drawScaling makes a small snapshot for the scaling model: full and roomy nodes, nodes that are not ready, shared
// workloads, minima and maxima, penalties that are not worth a pod, zero costs and zero demand.
func drawScaling(t *rapid.T) *Snapshot {
	s := NewSnapshot()
	s.Scaling.UnmetPenalty = rapid.SampledFrom([]float64{1000, 1000, 3, 0.5, 0}).Draw(t, "penalty")
	s.Scaling.EnergyWeight = rapid.SampledFrom([]float64{1, 1, 0}).Draw(t, "energy weight")
	amount := func(most int, name string) float64 { return float64(rapid.IntRange(0, most).Draw(t, name)) }
	rarely := func(name string) bool { return rapid.IntRange(0, 5).Draw(t, name) == 0 }
	for n := range rapid.IntRange(1, 3).Draw(t, "nodes") {
		node := newNode()
		node.Name, node.Ready = fmt.Sprint("n", n), !rarely("not ready")
		node.Capacity = Quantities{"cpu": 1 + amount(7, "cpu"), "memory": amount(8, "memory")}
		node.Used = Quantities{"cpu": amount(6, "used cpu"), "memory": amount(3, "used memory")}
		if rarely("memory unlimited") {
			delete(node.Capacity, "memory")
		}
		if rapid.Bool().Draw(t, "requests are known") {
			node.Allocatable = Quantities{"cpu": amount(8, "allocatable")}
			node.Requested = Quantities{"cpu": amount(6, "requested")}
		}
		s.Nodes = append(s.Nodes, node)
	}
	for l := range rapid.IntRange(1, 3).Draw(t, "services") {
		v := newService()
		v.Name = fmt.Sprint("s", l)
		v.Workload = v.Name
		if l > 0 && rarely("shared") {
			v.Workload = s.Services[0].Workload
		}
		v.PodRequest = Quantities{"cpu": amount(3, "request"), "memory": amount(3, "request memory")}
		if !rarely("not scaled") {
			v.SLATasksPerPod = 1 + amount(4, "sla")
		}
		v.EnergyCost, v.DeployCost = amount(3, "energy"), amount(3, "deploy")
		v.MinReplicas = int(amount(2, "min"))
		if rapid.Bool().Draw(t, "has max") {
			v.MaxReplicas = 2 + int(amount(2, "max"))
		}
		s.Services = append(s.Services, v)
	}
	drawScalingPods(t, s)
	for l := range s.Services {
		for n := range s.Nodes {
			if rarely("silent") {
				continue
			}
			tasks := amount(8, "tasks") / 2
			s.Arrivals = append(s.Arrivals, Arrival{Service: s.Services[l].Name, Node: s.Nodes[n].Name, Tasks: tasks, SliceTasks: tasks})
		}
	}
	return s
}

func drawScalingPods(t *rapid.T, s *Snapshot) {
	for p := range rapid.IntRange(0, 4).Draw(t, "pods") {
		pod := newPod()
		pod.Name = fmt.Sprint("p", p)
		pod.Node = rapid.SampledFrom(s.Nodes).Draw(t, "node").Name
		v := rapid.SampledFrom(s.Services).Draw(t, "service")
		pod.Services, pod.Workload = []string{v.Name}, v.Workload
		s.Pods = append(s.Pods, pod)
	}
}

func newRandom(seed int) *rand.Rand { return rand.New(rand.NewPCG(1, uint64(seed))) }

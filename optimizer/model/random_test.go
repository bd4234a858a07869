// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"

	"pgregory.net/rapid"
)

// draw makes a small snapshot with all that couples: pods of several services, networks that bind, traffic
// policies, draining pods, base loads, several rate resources, stock, zero capacities, overcommitted nodes.
// Amounts are small whole numbers, so that ties and degenerate optima are common.
func draw(t *rapid.T) *Snapshot {
	s := NewSnapshot()
	s.Resources = []string{"cpu", "memory", "workers"}
	s.Dispatch.Stages = []Stage{StageThroughput, StageBalance}
	s.Dispatch.MaxUtilisation = rapid.SampledFrom([]float64{1, 1, 0.9}).Draw(t, "maxUtilisation")
	amount := func(most int, name string) float64 { return float64(rapid.IntRange(0, most).Draw(t, name)) }
	rarely := func(name string) bool { return rapid.IntRange(0, 5).Draw(t, name) == 0 }
	for n := range rapid.IntRange(1, 4).Draw(t, "nodes") {
		node := newNode()
		node.Name, node.Zone = fmt.Sprint("n", n), string(rune('a'+n%2))
		node.Capacity, node.Used = Quantities{}, Quantities{}
		if rapid.Bool().Draw(t, "has network") {
			node.Capacity[NetworkResource] = amount(60, "network")
			node.Used[NetworkResource] = amount(20, "network used")
		}
		if rarely("cpu given") {
			node.Capacity["cpu"], node.Used["cpu"] = amount(40, "node cpu"), amount(20, "node cpu used")
		}
		s.Nodes = append(s.Nodes, node)
	}
	for l := range rapid.IntRange(1, 4).Draw(t, "services") {
		service := newService()
		service.Name = fmt.Sprint("s", l)
		service.TaskCost = Quantities{"cpu": amount(3, "r cpu"), NetworkResource: amount(2, "r net")}
		if rarely("memory costs") {
			service.TaskCost["memory"] = amount(2, "r memory")
		}
		if rarely("workers cost") {
			service.TaskCost["workers"] = amount(2, "r workers")
		}
		s.Services = append(s.Services, service)
	}
	for p := range rapid.IntRange(1, 6).Draw(t, "pods") {
		s.Pods = append(s.Pods, drawPod(t, s, p, amount, rarely))
	}
	drawArrivals(t, s, amount, rarely)
	return s
}

func drawPod(t *rapid.T, s *Snapshot, p int, amount func(int, string) float64, rarely func(string) bool) Pod {
	pod := newPod()
	pod.Name = fmt.Sprint("p", p)
	pod.Node = rapid.SampledFrom(s.Nodes).Draw(t, "node").Name
	pod.Draining, pod.Ready = rarely("draining"), !rarely("not ready")
	pod.Capacity, pod.Used, pod.Tasks = Quantities{}, Quantities{}, Quantities{}
	if !rarely("cpu unlimited") {
		pod.Capacity["cpu"] = amount(30, "cpu")
	}
	if rapid.Bool().Draw(t, "memory limited") {
		pod.Capacity["memory"], pod.Used["memory"] = amount(20, "memory"), amount(10, "memory used")
	}
	if rapid.Bool().Draw(t, "workers limited") {
		pod.Capacity["workers"], pod.Used["workers"] = amount(20, "workers"), amount(4, "workers used")
	}
	pod.Used["cpu"] = amount(10, "cpu used")
	for l := range s.Services {
		if rapid.IntRange(0, 2).Draw(t, "serves") == 0 {
			pod.Services = append(pod.Services, s.Services[l].Name)
			pod.Tasks[s.Services[l].Name] = amount(5, "tasks")
		}
	}
	return pod
}

func drawArrivals(t *rapid.T, s *Snapshot, amount func(int, string) float64, rarely func(string) bool) {
	for l := range s.Services {
		for n := range s.Nodes {
			if rarely("silent") {
				continue
			}
			a := Arrival{Service: s.Services[l].Name, Node: s.Nodes[n].Name, Tasks: amount(20, "arrivals")}
			a.Last = a.Tasks
			if rarely("narrow") {
				a.Pods = []string{}
				for p := range s.Pods {
					for _, name := range s.Pods[p].Services {
						if name == a.Service && rapid.Bool().Draw(t, "allowed") {
							a.Pods = append(a.Pods, s.Pods[p].Name)
						}
					}
				}
			}
			s.Arrivals = append(s.Arrivals, a)
		}
	}
}

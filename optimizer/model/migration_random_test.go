// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"pgregory.net/rapid"
)

// drawFleet makes a small snapshot with all that the migration model knows: nodes that are out, resources without
// capacity, weights, images, allocatables, targets, caps. Amounts are small whole numbers, so that ties and exactly
// full rooms are common.
func drawFleet(t *rapid.T) *Snapshot {
	s := NewSnapshot()
	amount := func(most int, name string) float64 { return float64(rapid.IntRange(0, most).Draw(t, name)) }
	rarely := func(name string) bool { return rapid.IntRange(0, 5).Draw(t, name) == 0 }
	s.Resources = []string{"cpu", "memory", "gpu"}[:rapid.IntRange(1, 3).Draw(t, "resources")]
	s.Stock = nil
	for n := range rapid.IntRange(1, 4).Draw(t, "nodes") {
		s.Nodes = append(s.Nodes, drawFleetNode(t, s, n, amount, rarely))
	}
	for p := range rapid.IntRange(0, 5).Draw(t, "pods") {
		s.Pods = append(s.Pods, drawFleetPod(t, s, p, amount, rarely))
	}
	m := &s.Migration
	m.MaxTimeShare = rapid.SampledFrom([]float64{0, 0.05, 0.1, 1}).Draw(t, "maxTimeShare")
	m.MaxMoves = rapid.IntRange(0, 3).Draw(t, "maxMoves")
	m.MinGain = rapid.SampledFrom([]float64{0, 0, 0.05, 0.5}).Draw(t, "minGain")
	m.MoveCost = rapid.SampledFrom([]float64{0, 0, 0.001, 0.05}).Draw(t, "moveCost")
	m.MoveOverhead = Duration(rapid.IntRange(0, 2).Draw(t, "moveOverhead")) * Duration(time.Second)
	m.ClusterWeight = rapid.SampledFrom([]float64{1, 1, 0, 3, 0.5}).Draw(t, "clusterWeight")
	m.TimeLimit, m.Seed = Duration(20*time.Second), rapid.IntRange(0, 3).Draw(t, "seed")
	return s
}

func drawFleetNode(t *rapid.T, s *Snapshot, n int, amount func(int, string) float64, rarely func(string) bool) Node {
	node := newNode()
	node.Name, node.Ready = fmt.Sprint("n", n), !rarely("not ready")
	node.PullBandwidth = 1 + amount(2, "bandwidth")
	node.Capacity, node.Used = Quantities{}, Quantities{}
	for _, k := range s.Resources {
		if !rarely("unlimited") {
			node.Capacity[k] = amount(20, "capacity")
			if node.Capacity[k] > 0 || !rarely("no capacity") {
				node.Capacity[k] += 10
			}
		}
		node.Used[k] = amount(16, "used")
	}
	if rapid.Bool().Draw(t, "allocatable given") {
		node.Allocatable, node.Requested = Quantities{"cpu": amount(10, "allocatable")}, Quantities{"cpu": amount(6, "requested")}
	}
	if rarely("weighted") {
		node.Weights = Quantities{s.Resources[0]: 1}
	}
	if rapid.Bool().Draw(t, "holds the image") {
		node.Images = []string{"i"}
	}
	return node
}

func drawFleetPod(t *rapid.T, s *Snapshot, p int, amount func(int, string) float64, rarely func(string) bool) Pod {
	pod := newPod()
	pod.Name, pod.Node = fmt.Sprint("p", p), rapid.SampledFrom(s.Nodes).Draw(t, "node").Name
	pod.Movable, pod.Draining, pod.Ready = !rarely("pinned"), rarely("draining"), !rarely("pod not ready")
	pod.Used, pod.Request = Quantities{}, Quantities{}
	for _, k := range s.Resources {
		pod.Used[k] = amount(6, "pod used")
	}
	pod.Request["cpu"] = amount(3, "request")
	pod.Image, pod.ImageBytes = rapid.SampledFrom([]string{"i", "j"}).Draw(t, "image"), amount(4, "bytes")
	if rarely("targets given") {
		pod.Targets = []string{"gone"}
		for _, n := range s.Nodes {
			if rapid.Bool().Draw(t, "target") {
				pod.Targets = append(pod.Targets, n.Name)
			}
		}
	}
	return pod
}

// spread makes a cluster of the size that the targets name: pods of many sizes on random nodes, half of
// them crowded on a quarter of the nodes; a move takes a few seconds.
func spread(nodes, pods, maxMoves int, seed uint64) *Snapshot {
	r := rand.New(rand.NewPCG(seed, uint64(nodes)))
	s := NewSnapshot()
	perNode := float64(pods) / float64(nodes)
	for n := range nodes {
		node := newNode()
		node.Name = fmt.Sprintf("node-%d", n)
		size := perNode * (0.6 + 0.8*r.Float64())
		node.Capacity = Quantities{"cpu": math.Round(10*size) / 10, "memory": math.Round(size * 4e9)}
		node.Used = Quantities{"cpu": 0.05 * size, "memory": 0.1 * size * 4e9}
		node.Allocatable = Quantities{"cpu": size, "memory": size * 4e9}
		node.Requested = Quantities{}
		for i := range 20 {
			if r.IntN(3) > 0 {
				node.Images = append(node.Images, fmt.Sprint("image-", i))
			}
		}
		node.PullBandwidth = 1e7 * (1 + 2*r.Float64())
		s.Nodes = append(s.Nodes, node)
	}
	for p := range pods {
		pod := newPod()
		at := r.IntN(nodes)
		if r.IntN(2) == 0 {
			at = r.IntN(max(1, nodes/4))
		}
		node := &s.Nodes[at]
		pod.Name, pod.Node = fmt.Sprintf("default/pod-%d", p), node.Name
		cpu, memory := 0.1+0.6*r.Float64()*r.Float64()*2, (0.1+0.9*r.Float64()*r.Float64())*1.5e9
		pod.Used = Quantities{"cpu": cpu, "memory": memory}
		pod.Request = Quantities{"cpu": 0.25, "memory": 5e8}
		pod.Image, pod.ImageBytes = fmt.Sprint("image-", r.IntN(20)), math.Round(5e7*(1+9*r.Float64()))
		for k, v := range pod.Used {
			node.Used[k] += v
			node.Requested[k] += pod.Request[k]
		}
		s.Pods = append(s.Pods, pod)
	}
	s.Migration.MaxMoves, s.Migration.MaxTimeShare, s.Migration.MoveOverhead = maxMoves, 1, Duration(2*time.Second)
	s.Slice = Duration(time.Duration(pods) * 10 * time.Second)
	return s
}

// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/edgeweir/weir/optimizer/model"
)

// instances are the sizes of the models' targets: beside the peers, and growing.
func instances() []instance {
	var out []instance
	stages := []string{contenderThroughput, contenderBalance, contenderLocality}
	for _, c := range []struct{ services, nodes, pods, runs int }{{20, 20, 10, 0}, {50, 50, 20, 0}, {100, 100, 20, 1}} {
		out = append(out, instance{"dispatch", fmt.Sprintf("%d×%d×%d", c.services, c.nodes, c.pods), "dense, 5% of networks bind",
			append([]string{contenderPuLP}, stages...), c.runs,
			func() *model.Snapshot { return dispatchInstance(c.services, c.nodes, c.pods, 1, 0.05) }})
	}
	for _, n := range []int{10, 100, 1000} {
		out = append(out, instance{"dispatch", fmt.Sprintf("%d×%d×20", n, n), "10% of pairs, 5% of networks bind", stages, 0,
			func() *model.Snapshot { return dispatchInstance(n, n, 20, 0.1, 0.05) }})
	}
	out = append(out, instance{"dispatch", "1000×1000×20", "dense, no network binds", stages, 1,
		func() *model.Snapshot { return dispatchInstance(1000, 1000, 20, 1, 0) }})
	for _, c := range []struct {
		nodes, pods, moves int
		limit              time.Duration
		clusterWeight      float64
		layouts            uint64
	}{{5, 20, 0, 5 * time.Second, 1, 1}, {10, 50, 0, 10 * time.Second, 1, 1}, {10, 100, 0, 2 * time.Second, 1, 1},
		{100, 1000, 100, 2 * time.Second, 1, 5}, {100, 1000, 100, 2 * time.Second, 100, 1}, {1000, 10000, 200, 10 * time.Second, 1, 1}} {
		for layout := range c.layouts {
			out = append(out, instance{"migration", fmt.Sprintf("%d×%d", c.nodes, c.pods),
				fmt.Sprintf("at most %s moves, %v, clusterWeight %g, layout %d", orAny(c.moves), c.limit, c.clusterWeight, layout+1),
				[]string{contenderWeir, contenderGreedy}, 0, func() *model.Snapshot {
					return migrationInstance(c.nodes, c.pods, c.moves, c.limit, c.clusterWeight, layout)
				}})
		}
	}
	for _, c := range []struct {
		nodes, pods int
		limit       time.Duration
	}{{5, 20, 5 * time.Second}, {10, 50, 10 * time.Second}} {
		out = append(out, instance{"migration", fmt.Sprintf("%d×%d", c.nodes, c.pods), fmt.Sprintf("6 s of pulling images, %v", c.limit),
			[]string{contenderWeir, contenderGreedy}, 0,
			func() *model.Snapshot { return pullingInstance(c.nodes, c.pods, c.limit) }})
	}
	for _, n := range []int{10, 100, 1000} {
		for _, c := range []struct {
			kind         string
			used, demand float64
		}{{"roomy", 0.5, 1}, {"90% full", 0.9, 1}, {"90% full, demand tripled", 0.9, 3}} {
			out = append(out, instance{"scaling", fmt.Sprintf("%d×%d", n, n), c.kind, []string{contenderWeir, contenderFirstFit}, 0,
				func() *model.Snapshot { return scalingInstance(n, n, c.used, c.demand) }})
		}
	}
	return out
}

func orAny(n int) string {
	if n == 0 {
		return "any number of"
	}
	return fmt.Sprint(n)
}

// dispatchInstance has demand in `density` of the pairs, 0.7 of what the pods can serve; `binding` of the networks
// admit half to nine tenths of what arrives.
func dispatchInstance(services, nodes, pods int, density, binding float64) *model.Snapshot {
	r := rand.New(rand.NewPCG(1, uint64(services)))
	s := model.NewSnapshot()
	for n := range nodes {
		s.Nodes = append(s.Nodes, model.Node{Name: fmt.Sprintf("node-%d", n), Zone: fmt.Sprintf("zone-%d", n%5), Ready: true,
			PullBandwidth: 12.5e6, Capacity: model.Quantities{"cpu": 1e6, "memory": 1e15, model.NetworkResource: 1e15}})
	}
	net := make([]float64, nodes)
	for l := range services {
		cpu, bytes, room := 0.002+0.004*r.Float64(), 1000+9000*r.Float64(), 0.0
		name := fmt.Sprintf("default/service-%d:http", l)
		s.Services = append(s.Services, model.Service{Name: name, Workload: name, MinReplicas: 1,
			TaskCost: model.Quantities{"cpu": cpu, "memory": 1e5, model.NetworkResource: bytes}})
		for p := range pods {
			pod := model.Pod{Name: fmt.Sprintf("default/service-%d-%d", l, p), Workload: name, Services: []string{name}, Ready: true,
				Movable: true, Node: s.Nodes[r.IntN(nodes)].Name,
				Capacity: model.Quantities{"cpu": 0.25 * float64(1+r.IntN(4)), "memory": 5e8},
				Used:     model.Quantities{"cpu": 0.05 * r.Float64(), "memory": 1e8}}
			room += (pod.Capacity["cpu"] - pod.Used["cpu"]) / cpu
			s.Pods = append(s.Pods, pod)
		}
		for n := range nodes {
			if r.Float64() < density {
				tasks := 2 * r.Float64() * 0.7 * room / (density * float64(nodes))
				net[n] += tasks * bytes
				s.Arrivals = append(s.Arrivals, model.Arrival{Service: name, Node: s.Nodes[n].Name, Tasks: tasks, Last: tasks, SliceTasks: 12 * tasks})
			}
		}
	}
	for n := range nodes {
		if r.Float64() < binding {
			s.Nodes[n].Capacity[model.NetworkResource] = net[n] * (0.5 + 0.4*r.Float64())
		}
	}
	return s
}

// migrationInstance has pods of many sizes, on half of the nodes three times as often as on the others, laid out by
// the seed `layout`. Time does not limit the moves.
func migrationInstance(nodes, pods, moves int, limit time.Duration, clusterWeight float64, layout uint64) *model.Snapshot {
	r := rand.New(rand.NewPCG(2+layout, uint64(nodes)))
	s := model.NewSnapshot()
	s.Migration.MaxMoves, s.Migration.ClusterWeight, s.Migration.TimeLimit = moves, clusterWeight, model.Duration(limit)
	perNode := float64(pods) / float64(nodes)
	for n := range nodes {
		s.Nodes = append(s.Nodes, model.Node{Name: fmt.Sprintf("node-%d", n), Ready: true, PullBandwidth: 12.5e6,
			Capacity: model.Quantities{"cpu": math.Ceil(1.6 * perNode), "memory": math.Ceil(3.2*perNode) * 1e9},
			Used:     model.Quantities{"cpu": 0.2, "memory": 5e8}})
	}
	for p := range pods {
		n := r.IntN(nodes)
		if n%2 == 1 && r.IntN(2) == 0 {
			n--
		}
		used := model.Quantities{"cpu": 0.1 + 0.9*r.Float64()*r.Float64(), "memory": (0.1 + 1.9*r.Float64()) * 1e9}
		for k, v := range used {
			s.Nodes[n].Used[k] += v
		}
		name := fmt.Sprintf("default/pod-%d", p)
		s.Pods = append(s.Pods, model.Pod{Name: name, Workload: name, Node: s.Nodes[n].Name, Ready: true, Movable: true, Used: used, Request: used})
	}
	for n := range s.Nodes {
		for k, v := range s.Nodes[n].Used {
			s.Nodes[n].Capacity[k] = max(s.Nodes[n].Capacity[k], v)
		}
	}
	return s
}

// pullingInstance is a migrationInstance whose moves take the time of pulling images of 20 to 200 MB at 50 MB/s, and
// have the tenth of a slice for it that is the default.
func pullingInstance(nodes, pods int, limit time.Duration) *model.Snapshot {
	r := rand.New(rand.NewPCG(4, uint64(nodes)))
	s := migrationInstance(nodes, pods, 0, limit, 1, 0)
	for n := range s.Nodes {
		s.Nodes[n].PullBandwidth = 5e7
	}
	for p := range s.Pods {
		s.Pods[p].Image, s.Pods[p].ImageBytes = fmt.Sprintf("image-%d", p), 2e7+1.8e8*r.Float64()
	}
	return s
}

// scalingInstance has three pods of each service, wants one to six times `demand`, and nodes of which about `used`
// is requested.
func scalingInstance(services, nodes int, used, demand float64) *model.Snapshot {
	r := rand.New(rand.NewPCG(3, uint64(services)))
	s := model.NewSnapshot()
	s.Scaling.TimeLimit = model.Duration(5 * time.Second)
	for n := range nodes {
		size := model.Quantities{"cpu": float64(4 * (1 + r.IntN(4))), "memory": float64(8*(1+r.IntN(4))) * 1e9}
		requested := model.Quantities{}
		for _, k := range []string{"cpu", "memory"} {
			requested[k] = size[k] * min(1, used+0.1*(r.Float64()-0.5))
		}
		s.Nodes = append(s.Nodes, model.Node{Name: fmt.Sprintf("node-%d", n), Ready: true, PullBandwidth: 12.5e6,
			Capacity: size, Allocatable: size, Requested: requested})
	}
	for l := range services {
		v := model.Service{Name: fmt.Sprintf("default/service-%d:http", l), Workload: fmt.Sprintf("default/Deployment/service-%d", l),
			SLATasksPerPod: float64(100 * (1 + r.IntN(5))), EnergyCost: float64(1 + r.IntN(3)), DeployCost: float64(1 + r.IntN(3)),
			MinReplicas: 1 + r.IntN(2), MaxReplicas: 20,
			PodRequest: model.Quantities{"cpu": 0.1 * float64(1+r.IntN(10)), "memory": 1e8 * float64(1+r.IntN(20))}}
		s.Services = append(s.Services, v)
		for p := range 3 {
			s.Pods = append(s.Pods, model.Pod{Name: fmt.Sprintf("default/service-%d-%d", l, p), Workload: v.Workload, Ready: true,
				Movable: true, Services: []string{v.Name}, Node: s.Nodes[r.IntN(nodes)].Name})
		}
		tasks := demand * (1 + 5*r.Float64()) * v.SLATasksPerPod / 10
		for i := range min(10, nodes) {
			t := tasks * 2 * r.Float64()
			s.Arrivals = append(s.Arrivals, model.Arrival{Service: v.Name, Node: s.Nodes[(7*l+i*nodes/min(10, nodes))%nodes].Name,
				Tasks: t / 12, Last: t / 12, SliceTasks: t})
		}
	}
	return s
}

// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"math"
	"slices"
)

var inf = math.Inf(1)

// bindTolerance: a capacity binds when the demand that can reach it exceeds it by more than this, relative.
const bindTolerance = 1e-12

// instance is a snapshot compiled for dispatch: indices instead of names, defaults resolved, base loads taken
// apart. Matrices over (pod, resource) and (service, resource) are flat, row by row.
type instance struct {
	s         *Snapshot
	resources int
	rate      []bool    // by resource: has a utilisation level
	cost      []float64 // service × resource
	netCost   []float64 // by service
	size      []float64 // pod × resource, A_pk
	base      []float64 // pod × resource
	room      []float64 // pod × resource
	floor     []float64 // by pod: level of the base load, the least u_p
	podNode   []int32
	serves    [][]int32 // by pod: its services
	netRoom   []float64 // by node, max(0, C^net − base); +Inf where unlimited or where demand can't reach it
	cpuRoom   []float64 // by node, where limits overcommit its CPU; else +Inf
	cpu       int       // the resource of that name, −1 where there is none
	classes   []class
	arrivals  []arrival // by index of Snapshot.Arrivals
	users     [][]int32 // by pod: the classes that have it
	splits    []split   // the first len(classes) are those of the classes
	// splitClass is, by split, its class.
	splitClass []int32
}

// split says how admitted tasks fall on pods: shares above 0 that sum to 1, by pod; empty where none are.
type split []podShare

type podShare struct {
	pod   int32
	share float64
}

// arrival is one (l, n).
type arrival struct {
	class, node int32
	split       int32 // index of instance.splits
	tasks       float64
	admitted    float64 // tasks, filled by the stages
}

// class is the demand of one service that may go to the same pods.
type class struct {
	service int32
	pods    []int32 // ascending
	members []int32 // arrivals
	bound   []int32 // those of members whose own node's network can bind
	total   float64 // tasks
	pool    float64 // tasks of the members that are not bound
	alone   []int32 // positions in pods of those no other class or node row touches
	shared  []int32 // the other positions
	flow    []float64
}

// compile resolves names and loads. Names are known: Validate has passed, or an error says which is not.
func compile(s *Snapshot) (*instance, error) {
	known, err := s.index()
	if err != nil {
		return nil, fmt.Errorf("snapshot: %w", err)
	}
	in := &instance{s: s, resources: len(s.Resources), cpu: -1}
	in.rate = make([]bool, in.resources)
	for k, name := range s.Resources {
		in.rate[k] = !slices.Contains(s.Stock, name)
		if name == "cpu" {
			in.cpu = k
		}
	}
	in.compileCosts()
	if err := in.compilePods(known); err != nil {
		return nil, err
	}
	if err := in.compileClasses(known); err != nil {
		return nil, err
	}
	in.compileNodes(known)
	in.splitClasses()
	return in, nil
}

func (in *instance) compileCosts() {
	s := in.s
	in.cost = make([]float64, len(s.Services)*in.resources)
	in.netCost = make([]float64, len(s.Services))
	prior := estimateCosts(s)
	for l := range s.Services {
		costs := s.Services[l].TaskCost
		if costs == nil {
			costs = prior[l]
		}
		for k, name := range s.Resources {
			in.cost[l*in.resources+k] = costs[name]
		}
		in.netCost[l] = costs[NetworkResource]
	}
}

func (in *instance) compilePods(known names) error {
	s, kk := in.s, in.resources
	n := len(s.Pods)
	in.size, in.base, in.room = make([]float64, n*kk), make([]float64, n*kk), make([]float64, n*kk)
	in.floor, in.podNode, in.serves = make([]float64, n), make([]int32, n), make([][]int32, n)
	for p := range s.Pods {
		pod := &s.Pods[p]
		in.podNode[p] = known.nodes[pod.Node]
		served := make([]float64, kk) // what the last period's tasks used
		for name, tasks := range pod.Tasks {
			l := int(known.services[name])
			for k := range kk {
				served[k] += in.cost[l*kk+k] * tasks
			}
		}
		for k, name := range s.Resources {
			i := p*kk + k
			in.size[i] = inf
			if v, ok := pod.Capacity[name]; ok {
				in.size[i] = v
			}
			in.base[i] = math.Max(0, pod.Used[name]-served[k])
			in.room[i] = math.Max(0, s.Dispatch.MaxUtilisation*in.size[i]-in.base[i])
			if math.IsInf(in.size[i], 1) {
				in.room[i] = inf
			}
			if in.levelled(i, k) {
				in.floor[p] = math.Max(in.floor[p], in.base[i]/in.size[i])
			}
		}
		for _, name := range pod.Services {
			l, ok := known.services[name]
			if !ok {
				return fmt.Errorf("snapshot: %w", bad(pathTo("pods", p).field("services"), name, "unknown name"))
			}
			in.serves[p] = append(in.serves[p], l)
		}
	}
	return nil
}

// levelled says whether entry i of a pod matrix, of resource k, has a utilisation level.
func (in *instance) levelled(i, k int) bool {
	return in.rate[k] && in.size[i] > 0 && !math.IsInf(in.size[i], 1)
}

// takes says whether p may receive tasks at all: d_lnp for some l and n.
func (in *instance) takes(p int32) bool { return in.s.Pods[p].Ready && !in.s.Pods[p].Draining }

// compileClasses groups the arrivals by service and set of pods. Each service has a first class of all its
// pods, even without demand: it gives the service's overall split.
func (in *instance) compileClasses(known names) error {
	s := in.s
	in.classes = make([]class, len(s.Services))
	for l := range in.classes {
		in.classes[l].service = int32(l)
	}
	for p := range s.Pods {
		if in.takes(int32(p)) {
			for _, l := range in.serves[p] {
				in.classes[l].pods = append(in.classes[l].pods, int32(p))
			}
		}
	}
	in.arrivals = make([]arrival, len(s.Arrivals))
	narrowed := make(map[string]int32)
	for i := range s.Arrivals {
		a := &s.Arrivals[i]
		l, okService := known.services[a.Service]
		n, okNode := known.nodes[a.Node]
		if !okService || !okNode {
			return fmt.Errorf("snapshot: %w", bad(string(pathTo("arrivals", i)), a.Service+" at "+a.Node, "unknown name"))
		}
		c := l
		if a.Pods != nil {
			c = in.narrow(l, a.Pods, known, narrowed)
		}
		in.arrivals[i] = arrival{class: c, split: c, node: n, tasks: a.Tasks}
		in.classes[c].members = append(in.classes[c].members, int32(i))
		in.classes[c].total += a.Tasks
	}
	return nil
}

// narrow finds or makes the class of l with only these pods.
func (in *instance) narrow(l int32, podNames []string, known names, narrowed map[string]int32) int32 {
	pods := make([]int32, 0, len(podNames))
	for _, name := range podNames {
		if p := known.pods[name]; slices.Contains(in.classes[l].pods, p) {
			pods = append(pods, p)
		}
	}
	slices.Sort(pods)
	if slices.Equal(pods, in.classes[l].pods) {
		return l
	}
	key := fmt.Sprint(l, pods)
	c, ok := narrowed[key]
	if !ok {
		c = int32(len(in.classes))
		narrowed[key] = c
		in.classes = append(in.classes, class{service: l, pods: pods})
	}
	return c
}

// compileNodes finds the nodes whose network can bind and those whose CPU the limits overcommit.
func (in *instance) compileNodes(known names) {
	s, kk := in.s, in.resources
	demand, last := make([]float64, len(s.Nodes)), make([]float64, len(s.Nodes))
	for i := range in.arrivals {
		a := &in.arrivals[i]
		r := in.netCost[in.classes[a.class].service]
		last[a.node] += r * s.Arrivals[i].Last
		if len(in.classes[a.class].pods) > 0 {
			demand[a.node] += r * a.tasks
		}
	}
	limits, reach := make([]float64, len(s.Nodes)), make([]float64, len(s.Nodes))
	served := make([]float64, len(s.Nodes))
	if in.cpu >= 0 {
		for p := range s.Pods {
			n, i := in.podNode[p], p*kk+in.cpu
			if !math.IsInf(in.size[i], 1) {
				limits[n] += in.size[i]
			}
			for name, tasks := range s.Pods[p].Tasks {
				served[n] += in.cost[int(known.services[name])*kk+in.cpu] * tasks
			}
			if in.takes(int32(p)) {
				reach[n] += in.room[i]
			}
		}
	}
	in.netRoom, in.cpuRoom = make([]float64, len(s.Nodes)), make([]float64, len(s.Nodes))
	for n := range s.Nodes {
		in.netRoom[n], in.cpuRoom[n] = inf, inf
		node := &s.Nodes[n]
		if c, ok := node.Capacity[NetworkResource]; ok {
			room := math.Max(0, c-math.Max(0, node.Used[NetworkResource]-last[n]))
			if demand[n] > room*(1+bindTolerance) {
				in.netRoom[n] = room
			}
		}
		if c, ok := node.Capacity["cpu"]; ok && in.cpu >= 0 && limits[n] > c*(1+bindTolerance) {
			room := math.Max(0, c-math.Max(0, node.Used["cpu"]-served[n]))
			if reach[n] > room*(1+bindTolerance) {
				in.cpuRoom[n] = room
			}
		}
	}
}

// splitClasses tells pooled arrivals from bound ones, and pods of one class from those that couple.
func (in *instance) splitClasses() {
	in.users = make([][]int32, len(in.s.Pods))
	for c := range in.classes {
		if in.classes[c].total > 0 {
			for _, p := range in.classes[c].pods {
				in.users[p] = append(in.users[p], int32(c))
			}
		}
	}
	for c := range in.classes {
		cl := &in.classes[c]
		cl.flow = make([]float64, len(cl.pods))
		for _, i := range cl.members {
			if in.bound(c, i) {
				cl.bound = append(cl.bound, i)
			} else {
				cl.pool += in.arrivals[i].tasks
			}
		}
		for j, p := range cl.pods {
			if len(in.users[p]) > 1 || in.cpuRoomBinds(cl.service, p) {
				cl.shared = append(cl.shared, int32(j))
			} else {
				cl.alone = append(cl.alone, int32(j))
			}
		}
	}
}

func (in *instance) bound(c int, i int32) bool {
	a := &in.arrivals[i]
	return a.tasks > 0 && in.netCost[in.classes[c].service] > 0 && !math.IsInf(in.netRoom[a.node], 1)
}

func (in *instance) cpuRoomBinds(l, p int32) bool {
	return in.cpu >= 0 && !math.IsInf(in.cpuRoom[in.podNode[p]], 1) && in.cost[int(l)*in.resources+in.cpu] > 0
}

// taskRoom is how many tasks of l fit into p's rooms: min over k of room_pk / r_lk.
func (in *instance) taskRoom(l, p int32) float64 {
	kk, most := in.resources, inf
	for k := range kk {
		if r := in.cost[int(l)*kk+k]; r > 0 {
			most = math.Min(most, in.room[int(p)*kk+k]/r)
		}
	}
	return most
}

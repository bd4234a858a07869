// SPDX-License-Identifier: Apache-2.0

package model

import (
	"math"
	"slices"
)

// fitTolerance: what arrives may exceed a room by this much, relative: sums of decimals are not exact.
const fitTolerance = 1e-9

// fleet is a snapshot compiled for migration: indices instead of names, matrices flat, row by row. Its nodes
// are those that are in the model, its pods those that may move somewhere.
//
//	a'_pk, C_nk     demand; unit = 1/C_nk, 0 where the node has no such capacity: r_nk is then no utilisation
//	r_nk, r_n, ω_nk load (at the start), level, weight
//	C_dk − C'_dk    room, +Inf where unlimited; departures are not credited
//	bytes_pd / B_d  seconds, with the overhead of a move
type fleet struct {
	s         *Snapshot
	kinds     int     // K
	nodes     []int32 // index in the snapshot
	all       []int32 // 0, 1, … by node
	pods      []int32
	unit      []float64 // node × resource
	load      []float64
	weight    []float64 // sums to 1 by node
	kindsOf   []float64 // by node: resources that it has a capacity of
	room      []float64 // node × resource
	free      []float64 // node × resource: allocatable − requested, +Inf where unchecked
	bandwidth []float64 // by node
	demand    []float64 // pod × resource
	request   []float64 // pod × resource
	home      []int32   // by pod
	bytes     []float64
	present   [][]bool  // by pod: the nodes that hold its image; nil: none
	targets   [][]int32 // by pod, ascending; nil: all nodes
	overhead  float64   // seconds per move
	budget    float64   // seconds
	maxMoves  int       // at most the number of pods
	stuck     stuck
}

// stuck counts the pods that can't move, by reason.
type stuck struct{ pinned, homeless, hemmed int }

// compileFleet resolves names; s has passed Validate.
func compileFleet(s *Snapshot) (*fleet, error) {
	known, err := s.index()
	if err != nil {
		return nil, err
	}
	f := &fleet{s: s, kinds: len(s.Resources), overhead: seconds(s.Migration.MoveOverhead),
		budget: s.Migration.MaxTimeShare * seconds(s.Slice)}
	site := f.compileNodes()
	f.compilePods(known, site)
	f.maxMoves = len(f.pods)
	if m := s.Migration.MaxMoves; m > 0 {
		f.maxMoves = min(m, f.maxMoves)
	}
	return f, nil
}

func seconds(d Duration) float64 { return float64(d) / 1e9 }

// compileNodes takes the nodes that are ready and have capacities, none of them 0, and returns the index of
// every node of the snapshot in the model, −1 where it is out.
func (f *fleet) compileNodes() []int32 {
	site := make([]int32, len(f.s.Nodes))
	for i := range f.s.Nodes {
		n := &f.s.Nodes[i]
		site[i] = -1
		if n.Ready && f.measurable(n) {
			site[i] = int32(len(f.nodes))
			f.all = append(f.all, site[i])
			f.nodes = append(f.nodes, int32(i))
			f.addNode(n)
		}
	}
	return site
}

func (f *fleet) measurable(n *Node) bool {
	some := false
	for _, name := range f.s.Resources {
		c, ok := n.Capacity[name]
		if ok && c <= 0 {
			return false
		}
		some = some || ok
	}
	return some
}

func (f *fleet) addNode(n *Node) {
	has, weights := 0.0, 0.0
	for _, name := range f.s.Resources {
		if _, ok := n.Capacity[name]; ok {
			has++
			weights += n.Weights[name]
		}
	}
	for _, name := range f.s.Resources {
		c, ok := n.Capacity[name]
		unit, room, weight, free := 0.0, inf, 0.0, inf
		if ok {
			unit, room, weight = 1/c, math.Max(0, c-n.Used[name]), 1/has
			if weights > 0 {
				weight = n.Weights[name] / weights
			}
		}
		if a, ok := n.Allocatable[name]; ok {
			free = math.Max(0, a-n.Requested[name])
		}
		f.unit, f.room, f.weight = append(f.unit, unit), append(f.room, room), append(f.weight, weight)
		f.load, f.free = append(f.load, n.Used[name]*unit), append(f.free, free)
	}
	f.kindsOf = append(f.kindsOf, has)
	f.bandwidth = append(f.bandwidth, n.PullBandwidth)
}

// compilePods takes the pods that may move and fit on some node by themselves.
func (f *fleet) compilePods(known names, site []int32) {
	images := make(map[string][]bool)
	for j, i := range f.nodes {
		for _, image := range f.s.Nodes[i].Images {
			if images[image] == nil {
				images[image] = make([]bool, len(f.nodes))
			}
			images[image][j] = true
		}
	}
	for i := range f.s.Pods {
		p := &f.s.Pods[i]
		home := site[known.nodes[p.Node]]
		switch {
		case !p.Movable || !p.Ready || p.Draining:
			f.stuck.pinned++
		case home < 0:
			f.stuck.homeless++
		default:
			f.addPod(i, home, siteTargets(p, known, site), images[p.Image])
		}
	}
}

func siteTargets(p *Pod, known names, site []int32) []int32 {
	if p.Targets == nil {
		return nil
	}
	targets := make([]int32, 0, len(p.Targets))
	for _, name := range p.Targets {
		if n, ok := known.nodes[name]; ok && site[n] >= 0 {
			targets = append(targets, site[n])
		}
	}
	slices.Sort(targets)
	return slices.Compact(targets)
}

// addPod appends the pod, and takes it back when it fits nowhere.
func (f *fleet) addPod(i int, home int32, targets []int32, present []bool) {
	p, at := &f.s.Pods[i], int32(len(f.pods))
	f.pods, f.home, f.targets = append(f.pods, int32(i)), append(f.home, home), append(f.targets, targets)
	f.bytes, f.present = append(f.bytes, p.ImageBytes), append(f.present, present)
	for _, name := range f.s.Resources {
		f.demand, f.request = append(f.demand, p.Used[name]), append(f.request, p.Request[name])
	}
	for _, d := range f.candidates(at) {
		if f.allowed(at, d) {
			return
		}
	}
	f.stuck.hemmed++
	f.pods, f.home, f.targets = f.pods[:at], f.home[:at], f.targets[:at]
	f.bytes, f.present = f.bytes[:at], f.present[:at]
	f.demand, f.request = f.demand[:int(at)*f.kinds], f.request[:int(at)*f.kinds]
}

// candidates are the nodes that p names, or all; its own node may be among them.
func (f *fleet) candidates(p int32) []int32 {
	if f.targets[p] != nil {
		return f.targets[p]
	}
	return f.all
}

// allowed says whether p may move to d when nothing else moves.
func (f *fleet) allowed(p, d int32) bool {
	if d == f.home[p] || f.moveTime(p, d) > f.budget*(1+fitTolerance) {
		return false
	}
	if t := f.targets[p]; t != nil {
		if _, ok := slices.BinarySearch(t, d); !ok {
			return false
		}
	}
	at, of := int(d)*f.kinds, int(p)*f.kinds
	for k := range f.kinds {
		if f.demand[of+k] > f.room[at+k]*(1+fitTolerance) || f.request[of+k] > f.free[at+k]*(1+fitTolerance) {
			return false
		}
	}
	return true
}

// moveTime is what moving p to d takes, in seconds.
func (f *fleet) moveTime(p, d int32) float64 {
	if f.bytes[p] == 0 || (f.present[p] != nil && f.present[p][d]) {
		return f.overhead
	}
	return f.overhead + f.bytes[p]/f.bandwidth[d]
}

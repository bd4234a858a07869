// SPDX-License-Identifier: Apache-2.0

package model

import (
	"context"
	"fmt"
	"math"
)

// Locality is stage 3. It keeps what every arrival is admitted, lets pods rise to the headroom or to their own
// stage-2 level, and minimises Σ tier cost · tasks; among the least-cost splits it levels the pods again.
//
// A class is asked at *origins*: each node that holds pods of it, and per zone all its other nodes. The costs
// never fall from node to zone to elsewhere, so where a class has its pods to itself the best split needs no LP:
// as much as possible stays on the node, then in the zone (nest.go). Classes that share pods are solved
// together by an LP (transport.go).

// origin is where tasks of one class come from.
type origin struct {
	node  int32 // −1: all nodes of the zone that hold no pod of the class
	zone  string
	tasks float64
	split split
}

// local is one class's stage 3: its origins, the most that each of its pods may hold, and where the arrivals
// belong.
type local struct {
	class   int32
	origins []origin
	of      []int32 // by position in class.members
	limits  vessels // by position in class.pods
}

// locality runs stage 3 and gives every arrival its split.
func (in *instance) locality(ctx context.Context, workers int) error {
	load := in.load()
	var groups [][]*local
	for _, classes := range in.coupledClasses() {
		var group []*local
		for _, c := range classes {
			group = append(group, in.newLocal(c, load))
		}
		groups = append(groups, group)
	}
	err := each(ctx, workers, groups, func(ctx context.Context, group []*local) error {
		if len(group) == 1 && len(in.classes[group[0].class].shared) == 0 {
			in.nest(group[0])
			return nil
		}
		return in.transport(ctx, group, load)
	})
	if err != nil {
		return fmt.Errorf("locality stage: %w", err)
	}
	for _, group := range groups {
		for _, w := range group {
			in.place(w)
		}
	}
	return nil
}

// coupledClasses groups the live classes that share pods or an overcommitted CPU: networks no longer couple,
// since admissions are fixed.
func (in *instance) coupledClasses() [][]int32 {
	sets, atCPU := newDisjoint(len(in.classes)), filled(len(in.s.Nodes))
	for c := range in.classes {
		cl := &in.classes[c]
		for _, j := range cl.shared {
			p := cl.pods[j]
			if !cl.live() {
				continue
			}
			sets.join(in.users[p][0], int32(c))
			if !in.cpuRoomBinds(cl.service, p) {
				continue
			}
			if first := atCPU[in.podNode[p]]; first >= 0 {
				sets.join(first, int32(c))
			}
			atCPU[in.podNode[p]] = int32(c)
		}
	}
	byRoot := make(map[int32]int)
	var out [][]int32
	for c := range in.classes {
		if !in.classes[c].live() {
			continue
		}
		root := sets.find(int32(c))
		if _, ok := byRoot[root]; !ok {
			byRoot[root] = len(out)
			out = append(out, nil)
		}
		out[byRoot[root]] = append(out[byRoot[root]], int32(c))
	}
	return out
}

// newLocal collects a class's origins and how far its pods may rise: to max(headroom, own level).
func (in *instance) newLocal(c int32, load []float64) *local {
	cl := &in.classes[c]
	w := &local{class: c, of: make([]int32, len(cl.members)), limits: make(vessels, len(cl.pods))}
	holds := make(map[int32]int32, len(cl.pods))
	for j, p := range cl.pods {
		holds[in.podNode[p]] = -1
		level, _ := in.utilisation(p, load)
		v := in.vessel(cl.service, p)
		v.most = math.Min(cl.total, v.most)
		v.most = math.Max(cl.flow[j], math.Min(v.most, v.at(math.Max(in.s.Dispatch.Headroom, level))))
		w.limits[j] = v
	}
	zones := make(map[string]int32)
	for m, i := range cl.members {
		a := &in.arrivals[i]
		zone := in.s.Nodes[a.node].Zone
		at, own := holds[a.node]
		if !own {
			var seen bool
			if at, seen = zones[zone]; !seen {
				at = -1
			}
		}
		if at < 0 {
			at = int32(len(w.origins))
			o := origin{node: -1, zone: zone}
			if own {
				o.node = a.node
				holds[a.node] = at
			} else {
				zones[zone] = at
			}
			w.origins = append(w.origins, o)
		}
		w.of[m] = at
		w.origins[at].tasks += a.admitted
	}
	return w
}

// tier is the cost of a task from o at a pod on node n.
func (in *instance) tier(o *origin, n int32) float64 {
	t := &in.s.Dispatch.Tiers
	switch {
	case o.node == n:
		return t.Node
	case o.zone != "" && o.zone == in.s.Nodes[n].Zone:
		return t.Zone
	}
	return t.Else
}

// place makes the origins' splits known and points the arrivals to them.
func (in *instance) place(w *local) {
	first := int32(len(in.splits))
	for i := range w.origins {
		in.splits = append(in.splits, w.origins[i].split)
		in.splitClass = append(in.splitClass, w.class)
	}
	for m, i := range in.classes[w.class].members {
		if len(w.origins[w.of[m]].split) > 0 {
			in.arrivals[i].split = first + w.of[m]
		}
	}
}

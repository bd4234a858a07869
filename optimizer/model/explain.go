// SPDX-License-Identifier: Apache-2.0

package model

import (
	"cmp"
	"fmt"
	"slices"
)

// reason is one line of why, and its weight.
type reason struct {
	missing float64 // tasks
	level   float64
	text    string
}

// explain says, one line per service and the shortest of tasks first, what limits it: how much is admitted and
// which constraint binds, or that it fits and which pod fills first.
func (in *instance) explain() []string {
	load, byService := in.load(), in.membersByService()
	reasons := make([]reason, 0, len(in.s.Services))
	for l := range in.s.Services {
		if r := in.reason(int32(l), byService[l], load); r.text != "" {
			reasons = append(reasons, r)
		}
	}
	slices.SortStableFunc(reasons, func(a, b reason) int {
		return cmp.Or(cmp.Compare(b.missing, a.missing), cmp.Compare(b.level, a.level))
	})
	out := make([]string, len(reasons))
	for i := range reasons {
		out[i] = reasons[i].text
	}
	return out
}

// reason is the line of one service; its text is empty without demand.
func (in *instance) reason(l int32, members []int32, load []float64) reason {
	total, admitted := 0.0, 0.0
	for _, i := range members {
		total += in.arrivals[i].tasks
		admitted += in.arrivals[i].admitted
	}
	p, level, k := in.fullest(l, load)
	name := in.s.Services[l].Name
	switch missing := total - admitted; {
	case total == 0:
		return reason{}
	case len(in.classes[l].pods) == 0:
		return reason{total, 0, fmt.Sprintf("%s: short by %.6g of %.6g tasks, no pod takes any", name, total, total)}
	case missing > total*wholeTolerance:
		return reason{missing, level, fmt.Sprintf("%s: short by %.6g of %.6g tasks, %s", name, missing, total,
			in.binding(l, members, load))}
	case k < 0:
		return reason{0, level, name + ": fits, no pod has a level"}
	}
	return reason{0, level, fmt.Sprintf("%s: fits, fullest pod %s at %.2f of %s", name, in.s.Pods[p].Name, level,
		in.s.Resources[k])}
}

func (in *instance) membersByService() [][]int32 {
	out := make([][]int32, len(in.s.Services))
	for c := range in.classes {
		l := in.classes[c].service
		out[l] = append(out[l], in.classes[c].members...)
	}
	return out
}

// fullest is the pod of l with the highest level; k < 0 where none has one.
func (in *instance) fullest(l int32, load []float64) (pod int32, level float64, k int) {
	k = -1
	for _, p := range in.classes[l].pods {
		if u, at := in.utilisation(p, load); at >= 0 && (k < 0 || u > level) {
			pod, level, k = p, u, at
		}
	}
	return pod, level, k
}

// binding names what keeps the rest of l's tasks out.
func (in *instance) binding(l int32, members []int32, load []float64) string {
	const full = 1e-6
	left := 0.0
	for _, p := range in.classes[l].pods {
		left += in.roomLeft(l, p, load)
	}
	missing, networks, first := 0.0, 0, ""
	for _, i := range members {
		a := &in.arrivals[i]
		missing += a.tasks - a.admitted
		if a.admitted < a.tasks*(1-wholeTolerance) && in.bound(int(a.class), i) {
			if networks == 0 {
				first = in.s.Nodes[a.node].Name
			}
			networks++
		}
	}
	switch {
	case left > full*missing && networks == 1:
		return fmt.Sprintf("the network of node %s is full", first)
	case left > full*missing && networks > 1:
		return fmt.Sprintf("the networks of node %s and %d more are full", first, networks-1)
	case left > full*missing:
		return "the pods it may use at those nodes, or their nodes' cpu, are full"
	}
	return fmt.Sprintf("its %d pods are full", len(in.classes[l].pods))
}

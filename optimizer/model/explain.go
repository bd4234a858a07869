// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"slices"
)

// explain says, one line per service and the shortest of tasks first, what limits it: how much is admitted and
// which constraint binds, or that it fits and which pod fills first.
func (in *instance) explain() []string {
	load := in.load()
	type line struct {
		missing float64
		level   float64
		text    string
	}
	lines := make([]line, 0, len(in.s.Services))
	byService := in.membersByService()
	for l := range in.s.Services {
		total, admitted := 0.0, 0.0
		for _, i := range byService[l] {
			total += in.arrivals[i].tasks
			admitted += in.arrivals[i].admitted
		}
		p, level, k := in.fullest(int32(l), load)
		name := in.s.Services[l].Name
		switch {
		case total == 0:
			continue
		case len(in.classes[l].pods) == 0:
			lines = append(lines, line{total, 0, fmt.Sprintf("%s: short by %.6g of %.6g tasks, no pod takes any", name, total, total)})
		case admitted < total*(1-wholeTolerance):
			lines = append(lines, line{total - admitted, level, fmt.Sprintf("%s: short by %.6g of %.6g tasks, %s", name,
				total-admitted, total, in.binding(int32(l), byService[l], load))})
		case k < 0:
			lines = append(lines, line{0, level, fmt.Sprintf("%s: fits, no pod has a level", name)})
		default:
			lines = append(lines, line{0, level, fmt.Sprintf("%s: fits, fullest pod %s at %.2f of %s", name,
				in.s.Pods[p].Name, level, in.s.Resources[k])})
		}
	}
	slices.SortStableFunc(lines, func(a, b line) int {
		switch {
		case a.missing > b.missing || (a.missing == b.missing && a.level > b.level):
			return -1
		case a.missing < b.missing || a.level < b.level:
			return 1
		}
		return 0
	})
	out := make([]string, len(lines))
	for i := range lines {
		out[i] = lines[i].text
	}
	return out
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

// SPDX-License-Identifier: Apache-2.0

package model

import (
	"math"
	"slices"
)

// shareTolerance: smaller shares are noise and left out. IPVS weights resolve 1/65535.
const shareTolerance = 1e-9

// splitFlows makes each class's split from its flow.
func (in *instance) splitFlows() {
	in.splits, in.splitClass = make([]split, len(in.classes)), make([]int32, len(in.classes))
	for c := range in.classes {
		in.splitClass[c] = int32(c)
		in.splits[c] = newSplit(in.classes[c].pods, in.classes[c].flow)
	}
}

// newSplit normalises the tasks of pods.
func newSplit(pods []int32, tasks []float64) split {
	total := 0.0
	for _, v := range tasks {
		total += v
	}
	if total <= 0 {
		return nil
	}
	kept := 0.0
	out := make(split, 0, len(pods))
	for j, v := range tasks {
		if v > shareTolerance*total {
			out = append(out, podShare{pods[j], v})
			kept += v
		}
	}
	for i := range out {
		out[i].share /= kept
	}
	return out
}

// publisher turns splits into ratios, sharing memory between arrivals of the same split and admitted share.
type publisher struct {
	in      *instance
	last    []published // by split
	overall []Ratio     // by service
}

type published struct {
	admitted float64
	pods     Split
}

// ratios lists, service by service, every arrival's ratio in the snapshot's order and then the overall one.
func (in *instance) ratios() []Ratio {
	p := &publisher{in: in, last: make([]published, len(in.splits)), overall: in.overallRatios()}
	byService := make([][]int32, len(in.s.Services))
	for i := range in.arrivals {
		l := in.classes[in.arrivals[i].class].service
		byService[l] = append(byService[l], int32(i))
	}
	out := make([]Ratio, 0, len(in.arrivals)+len(byService))
	for l, list := range byService {
		for _, i := range list {
			out = append(out, p.ratio(i))
		}
		out = append(out, p.overall[l])
	}
	return out
}

func (p *publisher) ratio(i int32) Ratio {
	a, at := &p.in.arrivals[i], &p.in.s.Arrivals[i]
	if a.tasks == 0 {
		r := p.overall[p.in.classes[a.class].service]
		if int(a.class) >= len(p.in.s.Services) {
			r.Pods = p.in.narrowed(r, a.class)
			r.Admitted = sumOf(r.Pods)
		}
		r.Node = at.Node
		return r
	}
	r := Ratio{Service: at.Service, Node: at.Node, Admitted: round(a.admitted / a.tasks)}
	if r.Admitted <= 0 {
		return Ratio{Service: at.Service, Node: at.Node, Pods: Split{}}
	}
	last := &p.last[a.split]
	if last.pods == nil || last.admitted != r.Admitted {
		*last = published{r.Admitted, p.in.publish(p.in.splits[a.split], r.Admitted)}
	}
	r.Pods = last.pods
	return r
}

// publish scales a split to the admitted share.
func (in *instance) publish(s split, admitted float64) Split {
	out := make(Split, len(s))
	for i, v := range s {
		out[i] = Share{in.s.Pods[v.pod].Name, round(v.share * admitted)}
	}
	return out
}

// overallRatios are the services' splits over all their arrivals; a service without demand is split by the room
// that its pods have left.
func (in *instance) overallRatios() []Ratio {
	out, load, flows := make([]Ratio, len(in.s.Services)), in.load(), in.flows()
	total, admitted := make([]float64, len(out)), make([]float64, len(out))
	for i := range in.arrivals {
		a := &in.arrivals[i]
		l := in.classes[a.class].service
		total[l] += a.tasks
		admitted[l] += a.admitted
	}
	for l := range out {
		share, s := 1.0, split(nil)
		if total[l] > 0 {
			share = round(admitted[l] / total[l])
			s = newSplit(in.classes[l].pods, flows[l])
		} else {
			s = in.splitByRoom(int32(l), load)
		}
		if len(s) == 0 {
			share = 0
		}
		out[l] = Ratio{Service: in.s.Services[l].Name, Admitted: share, Pods: in.publish(s, share)}
	}
	return out
}

// flows are, by service and position in its first class's pods, the admitted tasks. That class has all pods of
// the service.
func (in *instance) flows() [][]float64 {
	out := make([][]float64, len(in.s.Services))
	for l := range out {
		out[l] = make([]float64, len(in.classes[l].pods))
	}
	for s, tasks := range in.splitTasks() {
		l := in.classes[in.splitClass[s]].service
		for _, v := range in.splits[s] {
			if j, ok := slices.BinarySearch(in.classes[l].pods, v.pod); ok {
				out[l][j] += v.share * tasks
			}
		}
	}
	return out
}

// splitByRoom splits a service without demand by the room its pods have left; where others' tasks fill them all,
// by the room they would have, since its first tasks must go somewhere.
func (in *instance) splitByRoom(l int32, load []float64) split {
	pods := in.classes[l].pods
	weights := make([]float64, len(pods))
	for j, p := range pods {
		weights[j] = in.roomLeft(l, p, load)
	}
	if s := newSplit(pods, finite(weights)); len(s) > 0 {
		return s
	}
	for j, p := range pods {
		weights[j] = in.taskRoom(l, p)
	}
	return newSplit(pods, finite(weights))
}

// finite turns infinite weights, where there are any, into equal ones that leave the others none.
func finite(weights []float64) []float64 {
	endless := false
	for _, w := range weights {
		endless = endless || math.IsInf(w, 1)
	}
	if !endless {
		return weights
	}
	for j, w := range weights {
		weights[j] = 0
		if math.IsInf(w, 1) {
			weights[j] = 1
		}
	}
	return weights
}

// narrowed is the overall ratio over the pods of class c only.
func (in *instance) narrowed(overall Ratio, c int32) Split {
	byName := make(map[string]float64, len(overall.Pods))
	for _, s := range overall.Pods {
		byName[s.Pod] = s.Ratio
	}
	pods := in.classes[c].pods
	weights := make([]float64, len(pods))
	for j, p := range pods {
		weights[j] = byName[in.s.Pods[p].Name]
	}
	return in.publish(newSplit(pods, weights), overall.Admitted)
}

func sumOf(s Split) float64 {
	sum := 0.0
	for _, v := range s {
		sum += v.Ratio
	}
	return round(sum)
}

// round keeps 12 decimals.
func round(v float64) float64 { return math.Round(v*1e12) / 1e12 }

// SPDX-License-Identifier: Apache-2.0

package model

import (
	"math"
	"slices"
	"sort"
)

// line is one rate resource of a vessel: at level t ≥ base it leaves room for slope·(t − base) tasks.
type line struct{ slope, base float64 }

// vessel is a pod as the tasks of one service fill it. It can't be below floor, the level of its base load, and
// holds at most `most` tasks. What it holds at floor already, all of `most` where it has no lines, is free: no
// level depends on it. With `whole` set, free tasks fill at levels −1 to 0, evenly: at −1 + s up to s·whole.
type vessel struct {
	floor, most float64
	lines       []line
	whole       float64
}

// at is the tasks the vessel holds when its level may reach t: rising and continuous, constant between 0 and
// floor.
func (v *vessel) at(t float64) float64 {
	if v.whole > 0 && t < 0 {
		return math.Min(v.at(v.floor), math.Max(0, v.whole*(1+t)))
	}
	t = math.Max(t, v.floor)
	q := v.most
	for _, l := range v.lines {
		q = math.Min(q, l.slope*(t-l.base))
	}
	return math.Max(0, q)
}

// breaks appends the levels between which at is linear.
func (v *vessel) breaks(to []float64) []float64 {
	if v.whole > 0 {
		to = append(to, -1, math.Min(0, v.at(v.floor)/v.whole-1), 0)
	}
	if len(v.lines) == 0 {
		return to
	}
	to = append(to, v.floor)
	for i, l := range v.lines {
		to = append(to, l.base+v.most/l.slope)
		for _, m := range v.lines[:i] {
			if l.slope != m.slope {
				to = append(to, (l.slope*l.base-m.slope*m.base)/(l.slope-m.slope))
			}
		}
	}
	return to
}

// vessels are filled together.
type vessels []vessel

func (g vessels) at(t float64) float64 {
	sum := 0.0
	for i := range g {
		sum += g[i].at(t)
	}
	return sum
}

func (g vessels) breaks(to []float64) []float64 {
	for i := range g {
		to = g[i].breaks(to)
	}
	return to
}

// fill spreads total over the vessels such that their levels are lexicographically min-max, into out. Tasks that
// no level depends on are spread evenly. total is at most g.most(), up to rounding.
func (g vessels) fill(total float64, out []float64) {
	if free := g.at(math.Inf(-1)); free >= total {
		g = g.evenly(total)
	}
	t := levelOf(g.breaks(nil), g.at, total)
	for i := range g {
		out[i] = g[i].at(t)
	}
	scaleTo(total, out)
}

// scaleTo takes away the last bits: v sums to total.
func scaleTo(total float64, v []float64) {
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	if sum > 0 {
		for i := range v {
			v[i] *= total / sum
		}
	}
}

// evenly lets the free tasks of the vessels fill evenly, total being all there are.
func (g vessels) evenly(total float64) vessels {
	out := make(vessels, len(g))
	for i := range g {
		out[i] = g[i]
		out[i].most = math.Min(out[i].most, total)
		out[i].whole = total
	}
	return out
}

// levelOf is the least t with f(t) ≥ target for a rising f that is linear between breaks and constant outside
// them; the last break where there is none, −Inf without breaks.
func levelOf(breaks []float64, f func(float64) float64, target float64) float64 {
	if len(breaks) == 0 {
		return math.Inf(-1)
	}
	slices.Sort(breaks)
	i := sort.Search(len(breaks), func(i int) bool { return f(breaks[i]) >= target })
	switch i {
	case len(breaks):
		return breaks[len(breaks)-1]
	case 0:
		return breaks[0]
	}
	lo, hi := breaks[i-1], breaks[i]
	flo, fhi := f(lo), f(hi)
	if fhi <= flo {
		return hi
	}
	return math.Min(hi, math.Max(lo, lo+(target-flo)*(hi-lo)/(fhi-flo)))
}

// vessel is pod p as tasks of service l fill it.
func (in *instance) vessel(l, p int32) vessel {
	kk := in.resources
	v := vessel{floor: in.floor[p], most: in.taskRoom(l, p)}
	for k := range kk {
		i := int(p)*kk + k
		if r := in.cost[int(l)*kk+k]; r > 0 && in.levelled(i, k) {
			v.lines = append(v.lines, line{slope: in.size[i] / r, base: in.base[i] / in.size[i]})
		}
	}
	return v
}

// aloneVessels are the vessels of the pods that only class c uses, in the order of its alone list.
func (in *instance) aloneVessels(c int32) vessels {
	cl := &in.classes[c]
	out := make(vessels, len(cl.alone))
	for i, j := range cl.alone {
		out[i] = in.vessel(cl.service, cl.pods[j])
	}
	return out
}

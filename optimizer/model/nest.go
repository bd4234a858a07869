// SPDX-License-Identifier: Apache-2.0

package model

import "math"

// bin is a node or a zone of a nest: pods that together must hold at least need tasks, so that what can be
// served there is.
type bin struct {
	need  float64
	pods  []int32 // positions in the class, of a node
	nodes []*bin  // of a zone
	zone  string
	node  int32
	asked float64 // tasks that come from here
}

// nest is stage 3 of a class that has its pods to itself. The costs are nested (node ≤ zone ≤ else), so cost is
// least when each node serves min(demand, limits) of its own and each zone as well; q is a least-cost pod load
// exactly when every node's and every zone's pods hold at least that. Levelling under such nested lower bounds is
// water-filling in which a bin whose pods hold too little at the common level fills apart, to its need.
func (in *instance) nest(w *local) {
	total := 0.0
	for i := range w.origins {
		total += w.origins[i].tasks
	}
	if total <= 0 {
		return
	}
	zones := in.bins(w)
	held := make([]float64, len(w.limits))
	fillZones(zones, w.limits.evenly(total), total, held)
	in.route(w, zones, held)
}

// bins sorts the class's pods into nodes and zones, and tells what each must hold.
func (in *instance) bins(w *local) []*bin {
	byNode, byZone := make(map[int32]*bin), make(map[string]*bin)
	var zones []*bin
	zoneOf := func(zone string) *bin {
		z, ok := byZone[zone]
		if !ok {
			z = &bin{zone: zone, node: -1}
			byZone[zone] = z
			zones = append(zones, z)
		}
		return z
	}
	for j, p := range in.classes[w.class].pods {
		n := in.podNode[p]
		b, ok := byNode[n]
		if !ok {
			b = &bin{node: n, zone: in.s.Nodes[n].Zone}
			byNode[n] = b
			z := zoneOf(b.zone)
			z.nodes = append(z.nodes, b)
		}
		b.pods = append(b.pods, int32(j))
	}
	for i := range w.origins {
		o := &w.origins[i]
		zoneOf(o.zone).asked += o.tasks
		if o.node >= 0 {
			byNode[o.node].asked = o.tasks
		}
	}
	for _, z := range zones {
		z.setNeeds(w.limits, &in.s.Dispatch.Tiers)
	}
	return zones
}

// setNeeds tells what a zone and its nodes must hold, where a tier is worth keeping to.
func (b *bin) setNeeds(limits vessels, tiers *Tiers) {
	limit := 0.0
	for _, n := range b.nodes {
		own := 0.0
		for _, j := range n.pods {
			own += limits[j].most
		}
		limit += own
		if (b.zone != "" && tiers.Node < tiers.Zone) || (b.zone == "" && tiers.Node < tiers.Else) {
			n.need = math.Min(n.asked, own)
		}
	}
	if b.zone != "" && tiers.Zone < tiers.Else {
		b.need = math.Min(b.asked, limit)
	}
}

func (b *bin) vessels(g vessels) vessels {
	out := make(vessels, len(b.pods))
	for i, j := range b.pods {
		out[i] = g[j]
	}
	return out
}

// at is what a node's bin holds at level t, its need included.
func (b *bin) at(g vessels, t float64) float64 {
	sum := 0.0
	for _, j := range b.pods {
		sum += g[j].at(t)
	}
	return math.Max(b.need, sum)
}

// zoneAt is at for a zone.
func (b *bin) zoneAt(g vessels, t float64) float64 {
	sum := 0.0
	for _, n := range b.nodes {
		sum += n.at(g, t)
	}
	return math.Max(b.need, sum)
}

// breaks are the levels between which at is linear, the one where the need is met among them.
func (b *bin) breaks(g vessels, to []float64) []float64 {
	own := b.vessels(g)
	to = own.breaks(to)
	if b.need > 0 {
		if t := levelOf(own.breaks(nil), own.at, b.need); !math.IsInf(t, -1) {
			to = append(to, t)
		}
	}
	return to
}

func (b *bin) zoneBreaks(g vessels, to []float64) []float64 {
	from := len(to)
	for _, n := range b.nodes {
		to = n.breaks(g, to)
	}
	if b.need > 0 {
		inner := append([]float64(nil), to[from:]...)
		whole := bin{nodes: b.nodes}
		if t := levelOf(inner, func(t float64) float64 { return whole.zoneAt(g, t) }, b.need); !math.IsInf(t, -1) {
			to = append(to, t)
		}
	}
	return to
}

// fillZones water-fills all zones to total.
func fillZones(zones []*bin, g vessels, total float64, held []float64) {
	var breaks []float64
	for _, z := range zones {
		breaks = z.zoneBreaks(g, breaks)
	}
	sum := func(t float64) float64 {
		v := 0.0
		for _, z := range zones {
			v += z.zoneAt(g, t)
		}
		return v
	}
	t := levelOf(breaks, sum, total)
	for _, z := range zones {
		fillNodes(z, g, z.zoneAt(g, t), held)
	}
	scaleTo(total, held)
}

// fillNodes water-fills the nodes of one zone to total.
func fillNodes(z *bin, g vessels, total float64, held []float64) {
	var breaks []float64
	for _, b := range z.nodes {
		breaks = b.breaks(g, breaks)
	}
	whole := bin{nodes: z.nodes}
	t := levelOf(breaks, func(t float64) float64 { return whole.zoneAt(g, t) }, total)
	for _, b := range z.nodes {
		own := make([]float64, len(b.pods))
		b.vessels(g).fill(b.at(g, t), own)
		for i, j := range b.pods {
			held[j] = own[i]
		}
	}
}

// route tells each origin's tasks which pods they go to: first its node's, then the zone's, then all others
// that have room, each in proportion to what the pods still take.
func (in *instance) route(w *local, zones []*bin, held []float64) {
	left := append([]float64(nil), held...)
	stay := serveOwn(zones, held, left)
	rest := make(map[string][]float64) // by zone: what leaves a node of it falls on
	global := append([]float64(nil), left...)
	inZone := make(map[string]float64)
	for _, z := range zones {
		inZone[z.zone] = z.takeOwn(in, stay, left, global)
	}
	for _, z := range zones {
		rest[z.zone] = z.blend(inZone[z.zone], left, global)
	}
	for i := range w.origins {
		o := &w.origins[i]
		out := append([]float64(nil), rest[o.zone]...)
		if o.node >= 0 && o.tasks > 0 {
			in.keepOwn(w.class, o.node, math.Min(1, stay[o.node]/o.tasks), held, out)
		}
		o.split = newSplit(in.classes[w.class].pods, out)
	}
}

// serveOwn serves each node's tasks on its own pods as far as they hold them: it returns, by node, how many, and
// takes them from left.
func serveOwn(zones []*bin, held, left []float64) map[int32]float64 {
	stay := make(map[int32]float64)
	for _, z := range zones {
		for _, b := range z.nodes {
			sum := 0.0
			for _, j := range b.pods {
				sum += held[j]
			}
			own := math.Min(b.asked, sum)
			stay[b.node] = own
			for _, j := range b.pods {
				if sum > 0 {
					left[j] *= math.Max(0, 1-own/sum)
				}
			}
		}
	}
	return stay
}

// keepOwn puts a share of a node's tasks on its own pods, in proportion to what they hold.
func (in *instance) keepOwn(c, node int32, share float64, held, out []float64) {
	sum := 0.0
	for j, p := range in.classes[c].pods {
		out[j] *= 1 - share
		if in.podNode[p] == node {
			sum += held[j]
		}
	}
	for j, p := range in.classes[c].pods {
		if in.podNode[p] == node && sum > 0 {
			out[j] += share * held[j] / sum
		}
	}
}

// takeOwn is the part of what leaves the zone's nodes that the zone's other pods take; it leaves in global what
// they have for other zones.
func (b *bin) takeOwn(in *instance, stay map[int32]float64, left, global []float64) float64 {
	leaves, takes := b.asked, 0.0
	for _, n := range b.nodes {
		leaves -= stay[n.node]
		for _, j := range n.pods {
			takes += left[j]
		}
	}
	if b.zone == "" || leaves <= 0 || takes <= 0 {
		return 0
	}
	own := math.Min(leaves, takes)
	for _, n := range b.nodes {
		for _, j := range n.pods {
			global[j] *= math.Max(0, 1-own/takes)
		}
	}
	return own / leaves
}

// blend is the split of a task that leaves its node: share of it on the zone's pods, the rest on all.
func (b *bin) blend(share float64, left, global []float64) []float64 {
	out := make([]float64, len(left))
	sum := 0.0
	for _, v := range global {
		sum += v
	}
	for j, v := range global {
		if sum > 0 {
			out[j] = (1 - share) * v / sum
		}
	}
	takes := 0.0
	for _, n := range b.nodes {
		for _, j := range n.pods {
			takes += left[j]
		}
	}
	for _, n := range b.nodes {
		for _, j := range n.pods {
			if takes > 0 {
				out[j] += share * left[j] / takes
			}
		}
	}
	return out
}

// SPDX-License-Identifier: Apache-2.0

package model

import "math"

// component is a set of classes that share pods, binding node networks or overcommitted CPUs with each other
// and with no other class, and its throughput LP.
type component struct {
	classes  []int32
	nodes    []int32 // whose network binds
	pods     []int32 // that couple: used by several classes or under a CPU row
	cpuNodes []int32 // with a CPU row
	columns  []column
	rows     []row
	free     []bool  // by column: stage 2 found it not to be fixed
	lost     float64 // tasks that columns left out for being tiny could have served
}

// columnKind says what a column's tasks are.
type columnKind uint8

const (
	poolColumn  columnKind = iota // in: the pooled arrivals of a class
	boundColumn                   // in: one arrival whose node's network can bind; at = its index
	aloneColumn                   // out: to all pods that only this class uses
	podColumn                     // out: to one pod that couples; at = its position in the class
)

// column is one variable, in tasks, 0 ≤ value ≤ most.
type column struct {
	kind    columnKind
	class   int32
	at      int32
	pod     int32 // of a podColumn
	most    float64
	value   float64
	reduced float64 // per task, of the throughput stage's dual
}

func (c *column) in() bool { return c.kind <= boundColumn }

type rowKind uint8

const (
	classRow   rowKind = iota // Σ in − Σ out = 0
	netRow                    // Σ r^net x ≤ room of the node's network
	podRow                    // Σ r_k f ≤ room_pk
	cpuRow                    // Σ r_cpu f ≤ room of the node's CPU
	serviceRow                // Σ in ≤ what the maxmin policy serves
)

// row is one constraint Σ coef·column ≤ limit (= 0 for a classRow, whose limit is the class's total for scale).
type row struct {
	kind  rowKind
	index int32 // class, node or pod
	k     int
	limit float64
	terms []term
}

type term struct {
	column int32
	coef   float64
}

// disjoint is a union-find structure.
type disjoint []int32

func newDisjoint(n int) disjoint {
	d := make(disjoint, n)
	for i := range d {
		d[i] = int32(i)
	}
	return d
}

func (d disjoint) find(i int32) int32 {
	for d[i] != i {
		d[i] = d[d[i]]
		i = d[i]
	}
	return i
}

func (d disjoint) join(a, b int32) {
	a, b = d.find(a), d.find(b)
	d[max(a, b)] = min(a, b)
}

// components splits the classes with demand and pods. They come in the order of their first class.
func (in *instance) components() []*component {
	sets := newDisjoint(len(in.classes))
	first := func(memo []int32, i, c int32) {
		if memo[i] < 0 {
			memo[i] = c
			return
		}
		sets.join(memo[i], c)
	}
	atNode, atCPU := filled(len(in.s.Nodes)), filled(len(in.s.Nodes))
	atService := filled(len(in.s.Services))
	for c := range in.classes {
		cl := &in.classes[c]
		if !cl.live() {
			continue
		}
		if in.s.Dispatch.Shortage == ShortageMaxMin { // a service's fraction is one
			first(atService, cl.service, int32(c))
		}
		for _, i := range cl.bound {
			first(atNode, in.arrivals[i].node, int32(c))
		}
		for _, j := range cl.shared {
			p := cl.pods[j]
			sets.join(in.users[p][0], int32(c))
			if in.cpuRoomBinds(cl.service, p) {
				first(atCPU, in.podNode[p], int32(c))
			}
		}
	}
	return in.gather(sets, atNode, atCPU)
}

func filled(n int) []int32 {
	v := make([]int32, n)
	for i := range v {
		v[i] = -1
	}
	return v
}

// live classes have something to decide.
func (cl *class) live() bool { return cl.total > 0 && len(cl.pods) > 0 }

func (in *instance) gather(sets disjoint, atNode, atCPU []int32) []*component {
	byRoot := make([]*component, len(in.classes))
	var out []*component
	for c := range in.classes {
		if !in.classes[c].live() {
			continue
		}
		root := sets.find(int32(c))
		if byRoot[root] == nil {
			byRoot[root] = &component{}
			out = append(out, byRoot[root])
		}
		byRoot[root].classes = append(byRoot[root].classes, int32(c))
	}
	for n := range atNode {
		if c := atNode[n]; c >= 0 {
			k := byRoot[sets.find(c)]
			k.nodes = append(k.nodes, int32(n))
		}
		if c := atCPU[n]; c >= 0 {
			k := byRoot[sets.find(c)]
			k.cpuNodes = append(k.cpuNodes, int32(n))
		}
	}
	seen := make([]bool, len(in.s.Pods))
	for _, k := range out {
		for _, c := range k.classes {
			cl := &in.classes[c]
			for _, j := range cl.shared {
				if p := cl.pods[j]; !seen[p] {
					seen[p] = true
					k.pods = append(k.pods, p)
				}
			}
		}
	}
	return out
}

// tinyShare: a column that could carry less than this share of its class is left out of the LP, which has no
// digits for it; what it could carry is added to the bound.
const tinyShare = 1e-10

// build lays out the component's throughput LP:
//
//	maximise Σ in   subject to, per class, Σ in = Σ out; per binding node Σ r^net x ≤ room;
//	per coupling pod and resource Σ r f ≤ room; per overcommitted CPU Σ r f ≤ room.
func (in *instance) build(k *component) {
	netTerms, podTerms := make(map[int32][]term), make(map[int32][]term)
	for _, c := range k.classes {
		cl := &in.classes[c]
		balance := row{kind: classRow, index: c, limit: cl.total}
		add := func(col column) int32 {
			j := k.addColumn(col, tinyShare*cl.total)
			if j >= 0 && col.in() {
				balance.terms = append(balance.terms, term{j, 1})
			} else if j >= 0 {
				balance.terms = append(balance.terms, term{j, -1})
			}
			return j
		}
		add(column{kind: poolColumn, class: c, most: cl.pool})
		for _, i := range cl.bound {
			a, r := &in.arrivals[i], in.netCost[cl.service]
			if j := add(column{kind: boundColumn, class: c, at: i, most: math.Min(a.tasks, in.netRoom[a.node]/r)}); j >= 0 {
				netTerms[a.node] = append(netTerms[a.node], term{j, r})
			}
		}
		add(column{kind: aloneColumn, class: c, most: math.Min(in.aloneRoom(c), cl.total)})
		for _, pos := range cl.shared {
			p := cl.pods[pos]
			col := column{kind: podColumn, class: c, at: pos, pod: p, most: math.Min(in.coupledRoom(cl.service, p), cl.total)}
			if j := add(col); j >= 0 {
				podTerms[p] = append(podTerms[p], term{column: j})
			}
		}
		k.rows = append(k.rows, balance)
	}
	for _, n := range k.nodes {
		k.addRow(row{kind: netRow, index: n, limit: in.netRoom[n], terms: netTerms[n]})
	}
	in.addPodRows(k, podTerms)
}

// addColumn returns the index of the new column, or −1 when it is too small to be one.
func (k *component) addColumn(col column, tiny float64) int32 {
	if col.most <= tiny {
		k.lost += col.most
		return -1
	}
	k.columns = append(k.columns, col)
	return int32(len(k.columns) - 1)
}

// coupledRoom is taskRoom under the CPU row of p's node as well.
func (in *instance) coupledRoom(l, p int32) float64 {
	most := in.taskRoom(l, p)
	if in.cpuRoomBinds(l, p) {
		most = math.Min(most, in.cpuRoom[in.podNode[p]]/in.cost[int(l)*in.resources+in.cpu])
	}
	return most
}

// aloneRoom is how many tasks the pods hold that only c uses.
func (in *instance) aloneRoom(c int32) float64 {
	cl, sum := &in.classes[c], 0.0
	for _, j := range cl.alone {
		sum += in.taskRoom(cl.service, cl.pods[j])
	}
	return sum
}

func (in *instance) addPodRows(k *component, podTerms map[int32][]term) {
	cpuTerms := make(map[int32][]term)
	for _, p := range k.pods {
		for r := range in.resources {
			terms := in.priced(k, podTerms[p], r)
			k.addRow(row{kind: podRow, index: p, k: r, limit: in.room[int(p)*in.resources+r], terms: terms})
			if n := in.podNode[p]; r == in.cpu && !math.IsInf(in.cpuRoom[n], 1) {
				cpuTerms[n] = append(cpuTerms[n], terms...)
			}
		}
	}
	for _, n := range k.cpuNodes {
		k.addRow(row{kind: cpuRow, index: n, limit: in.cpuRoom[n], terms: cpuTerms[n]})
	}
}

// priced gives the terms the cost of resource r, leaving out those that cost nothing.
func (in *instance) priced(k *component, terms []term, r int) []term {
	var out []term
	for _, t := range terms {
		l := in.classes[k.columns[t.column].class].service
		if c := in.cost[int(l)*in.resources+r]; c > 0 {
			out = append(out, term{t.column, c})
		}
	}
	return out
}

// addRow appends r if it can bind.
func (k *component) addRow(r row) {
	if k.reach(r.terms) > r.limit*(1+bindTolerance) {
		k.rows = append(k.rows, r)
	}
}

// reach is the most that the terms can come to.
func (k *component) reach(terms []term) float64 {
	sum := 0.0
	for _, t := range terms {
		sum += t.coef * k.columns[t.column].most
	}
	return sum
}

// SPDX-License-Identifier: Apache-2.0

package model

import "math"

// square is one term weight · u² of the objective, u = start + Σ_k coef_k · (demand that came to node − that left).
// var_k(r_nk) is the sum of K_n − 1 of them, (1/K_n) Σ_j (h_j·r_n)² with h_j the Helmert contrasts, which are
// orthonormal and orthogonal to the mean. clusterWeight · var_n(r_n) is the sum of N, of u_n = r_n − R: among
// all R the mean gives the least, so R is free wherever squares are minimised.
type square struct {
	node   int32
	level  bool // one of the N between nodes
	coef   []float64
	start  float64
	weight float64
}

// squares takes the objective apart. Squares between nodes come last, in the nodes' order.
func (f *fleet) squares() []square {
	var out []square
	for n := range f.nodes {
		out = append(out, f.contrasts(n)...)
	}
	if w := f.s.Migration.ClusterWeight; w > 0 {
		out = append(out, f.levels(w)...)
	}
	return out
}

// contrasts are the squares within node n.
func (f *fleet) contrasts(n int) []square {
	var out []square
	var members []int
	for k := range f.kinds {
		if f.unit[n*f.kinds+k] == 0 {
			continue
		}
		if j := float64(len(members)); j > 0 {
			q := square{node: int32(n), coef: make([]float64, f.kinds), weight: 1 / f.kindsOf[n]}
			norm := 1 / math.Sqrt(j*(j+1))
			add := func(k int, h float64) {
				q.coef[k] = h * f.unit[n*f.kinds+k]
				q.start += h * f.load[n*f.kinds+k]
			}
			for _, m := range members {
				add(m, norm)
			}
			add(k, -j*norm)
			out = append(out, q)
		}
		members = append(members, k)
	}
	return out
}

// levels are the squares between nodes.
func (f *fleet) levels(clusterWeight float64) []square {
	n := len(f.nodes)
	out := make([]square, n)
	mean := 0.0
	for i := range n {
		q := square{node: int32(i), level: true, coef: make([]float64, f.kinds), weight: clusterWeight / float64(n)}
		for k := range f.kinds {
			at := i*f.kinds + k
			q.coef[k] = f.weight[at] * f.unit[at]
			q.start += f.weight[at] * f.load[at]
		}
		mean += q.start / float64(n)
		out[i] = q
	}
	for i := range out {
		out[i].start -= mean
	}
	return out
}

// slope is what one more unit of u_j costs per unit of p's demand, coef · a'_p.
func (f *fleet) slope(q *square, p int32) float64 {
	v := 0.0
	for k, c := range q.coef {
		v += c * f.demand[int(p)*f.kinds+k]
	}
	return v
}

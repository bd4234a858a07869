// SPDX-License-Identifier: Apache-2.0

package model

import (
	"math"
	"slices"
)

// prices are multipliers of the coupling constraints. Any prices prove a bound on every plan:
//
//	Σ_j (y_j start_j − y_j²/4w_j) − Σ α room − Σ β free − τ budget + min over plans of Σ c_pd z_pd,
//	c_pd = moveCost + Σ_j y_j slope_j,pd + α_d·a'_p + β_d·request_p + τ seconds_pd,
//
// by weak duality: y_j belongs to u_j's definition (the first sum is each square's least over u_j), α and β ≥ 0
// to the rooms, τ ≥ 0 to the time. In the last minimum each pod moves once at most, maxMoves pods do, and all
// else is free. y of the squares between nodes must sum to 0, since R is free.
type prices struct {
	y     []float64 // by square
	room  []float64 // α, node × resource
	free  []float64 // β, node × resource
	time  float64   // τ
	count float64   // of a move, where maxMoves binds: for choosing columns, no part of the bound
}

func newPrices(f *fleet, squares []square) *prices {
	n := len(f.nodes) * f.kinds
	return &prices{y: make([]float64, len(squares)), room: make([]float64, n), free: make([]float64, n)}
}

// centre makes the prices of the squares between nodes sum to 0.
func (v *prices) centre(squares []square) {
	sum, n := 0.0, 0.0
	for j := range squares {
		if squares[j].level {
			sum += v.y[j]
			n++
		}
	}
	for j := range squares {
		if squares[j].level {
			v.y[j] -= sum / n
		}
	}
}

// pricing is what prices say about all pods and nodes.
type pricing struct {
	fixed float64   // the bound without its last minimum
	gain  float64   // that minimum
	bound float64   // 0 at least: no objective is below
	least []float64 // by pod: min over d of c_pd, 0 for staying
	limit float64   // of the maxMoves pods with the least c, the largest c; 0 where fewer gain
	leave []float64 // node × resource: what a unit of demand that leaves is worth
	enter []float64 // node × resource: what a unit of demand that comes costs
	v     *prices
}

// price computes the bound and offers the two best transfers of each pod whose cost lies below ceiling(p).
// It takes the time of (movable pods) × (nodes).
func (f *fleet) price(squares []square, v *prices, ceiling func(p int32) float64, offer func(transfer)) *pricing {
	v.centre(squares)
	g := &pricing{v: v, least: make([]float64, len(f.pods))}
	g.unitPrices(f, squares)
	for p := range f.pods {
		a, b := f.twoBest(int32(p), g)
		g.least[p] = math.Min(0, a.worth)
		if offer == nil {
			continue
		}
		top := ceiling(int32(p))
		if a.worth < top {
			offer(a)
		}
		if b.worth < top {
			offer(b)
		}
	}
	g.gain = g.chosen(f.maxMoves)
	g.bound = math.Max(0, g.fixed+g.gain)
	return g
}

// unitPrices fills fixed, leave and enter.
func (g *pricing) unitPrices(f *fleet, squares []square) {
	v := g.v
	g.leave = make([]float64, len(v.room))
	g.enter = make([]float64, len(v.room))
	for j := range squares {
		q := &squares[j]
		g.fixed += v.y[j]*q.start - v.y[j]*v.y[j]/(4*q.weight)
		for k, c := range q.coef {
			g.leave[int(q.node)*f.kinds+k] -= v.y[j] * c
		}
	}
	for i := range g.enter {
		g.enter[i] = v.room[i] - g.leave[i]
		if v.room[i] > 0 {
			g.fixed -= v.room[i] * f.room[i]
		}
		if v.free[i] > 0 {
			g.fixed -= v.free[i] * f.free[i]
		}
	}
	if v.time > 0 {
		g.fixed -= v.time * f.budget
	}
}

// cost is c_pd.
func (g *pricing) cost(f *fleet, p, d int32) float64 {
	return g.away(f, p) + g.there(f, p, d)
}

// away is the part of c_pd that p's leaving its home gives.
func (g *pricing) away(f *fleet, p int32) float64 {
	c, from, of := f.s.Migration.MoveCost, int(f.home[p])*f.kinds, int(p)*f.kinds
	for k := range f.kinds {
		c += g.leave[from+k] * f.demand[of+k]
	}
	return c
}

// there is the part of c_pd that depends on d.
func (g *pricing) there(f *fleet, p, d int32) float64 {
	at, of := int(d)*f.kinds, int(p)*f.kinds
	enter, free := g.enter[at:at+f.kinds], g.v.free[at:at+f.kinds]
	demand, request := f.demand[of:of+f.kinds], f.request[of:of+f.kinds]
	c := 0.0
	for k, a := range demand {
		c += enter[k]*a + free[k]*request[k]
	}
	if g.v.time > 0 {
		c += g.v.time * f.moveTime(p, d)
	}
	return c
}

// twoBest are p's two allowed transfers of least cost; worth +Inf where there are fewer.
func (f *fleet) twoBest(p int32, g *pricing) (a, b transfer) {
	a, b = transfer{p, -1, inf}, transfer{p, -1, inf}
	base := g.away(f, p)
	for _, d := range f.candidates(p) {
		c := base + g.there(f, p, d)
		if c >= b.worth || !f.allowed(p, d) {
			continue
		}
		if c < a.worth {
			a, b = transfer{p, d, c}, a
		} else {
			b = transfer{p, d, c}
		}
	}
	return a, b
}

// chosen is the sum of the most least costs that may be taken.
func (g *pricing) chosen(most int) float64 {
	gains := make([]float64, 0, len(g.least))
	for _, c := range g.least {
		if c < 0 {
			gains = append(gains, c)
		}
	}
	if len(gains) > most {
		slices.Sort(gains)
		g.limit = gains[most-1]
		gains = gains[:most]
	}
	sum := 0.0
	for _, c := range gains {
		sum += c
	}
	return sum
}

// with is a bound on every plan that holds transfer (p, d).
func (g *pricing) with(f *fleet, p, d int32) float64 {
	c := g.cost(f, p, d)
	return g.fixed + g.gain + c - math.Min(g.least[p], g.limit)
}

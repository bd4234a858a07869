// SPDX-License-Identifier: Apache-2.0

package highs

import "math"

// violationTolerance is the largest accepted violation of a row, a bound or integrality, relative to
// max(1, |bound|). HiGHS works at 1e-7 on its scaled model, which can be 1e-6 on ours.
const violationTolerance = 1e-6

// Violation is the largest violation of p's rows, bounds and integrality at x, each relative to
// max(1, |bound|). NaN anywhere gives +Inf. p must be well formed.
func Violation(p *Problem, x []float64) float64 { return violationAt(p, x, RowValues(p, x)) }

func violationAt(p *Problem, x, activity []float64) float64 {
	worst := 0.0
	for j, v := range x {
		lower, upper := 0.0, Inf
		if p.Lower != nil {
			lower = p.Lower[j]
		}
		if p.Upper != nil {
			upper = p.Upper[j]
		}
		worst = math.Max(worst, outside(v, lower, upper))
		if p.Integer != nil && p.Integer[j] {
			worst = math.Max(worst, math.Abs(v-math.Round(v)))
		}
	}
	for i, v := range activity {
		worst = math.Max(worst, outside(v, p.RowLower[i], p.RowUpper[i]))
	}
	if math.IsNaN(worst) {
		return Inf
	}
	return worst
}

func outside(v, lower, upper float64) float64 {
	switch {
	case math.IsNaN(v):
		return math.NaN()
	case v < lower:
		return (lower - v) / math.Max(1, math.Abs(lower))
	case v > upper:
		return (v - upper) / math.Max(1, math.Abs(upper))
	}
	return 0
}

// RowValues is Ax, one value per row.
func RowValues(p *Problem, x []float64) []float64 {
	out := make([]float64, len(p.RowLower))
	m := &p.Matrix
	for i := 0; i+1 < len(m.Start); i++ {
		for e := m.Start[i]; e < m.Start[i+1]; e++ {
			if m.Layout == Rowwise {
				out[i] += m.Value[e] * x[m.Index[e]]
			} else {
				out[m.Index[e]] += m.Value[e] * x[i]
			}
		}
	}
	return out
}

// ObjectiveAt is the objective of p at x.
func ObjectiveAt(p *Problem, x []float64) float64 {
	v := p.Offset
	for j, c := range p.Cost {
		v += c * x[j]
	}
	if h := p.Hessian; h != nil {
		for j := range p.Cost {
			for e := h.Start[j]; e < h.Start[j+1]; e++ {
				i := h.Index[e]
				q := h.Value[e] * x[i] * x[j]
				if int(i) == j {
					q /= 2
				}
				v += q
			}
		}
	}
	return v
}

// DualBound is the bound on a linear p's optimum that the row duals prove by weak duality, whatever they
// are: duals of the wrong sign are taken as 0. It is exact at an optimal dual. HiGHS's convention: for
// Minimize a row at its lower bound has a dual ≥ 0, for Maximize one ≤ 0. Unbounded columns with a reduced
// cost beyond tolerance give ∓Inf (nothing proven).
func DualBound(p *Problem, rowDual []float64) float64 {
	sign := 1.0
	if p.Sense == Maximize {
		sign = -1
	}
	reduced := make([]float64, len(p.Cost))
	for j, c := range p.Cost {
		reduced[j] = sign * c
	}
	bound := sign * p.Offset
	duals := make([]float64, len(rowDual))
	for i, y := range rowDual {
		y *= sign
		if (y > 0 && math.IsInf(p.RowLower[i], -1)) || (y < 0 && math.IsInf(p.RowUpper[i], 1)) {
			y = 0
		}
		duals[i] = y
		bound += support(y, p.RowLower[i], p.RowUpper[i])
	}
	m := &p.Matrix
	for i := 0; i+1 < len(m.Start); i++ {
		for e := m.Start[i]; e < m.Start[i+1]; e++ {
			if m.Layout == Rowwise {
				reduced[m.Index[e]] -= duals[i] * m.Value[e]
			} else {
				reduced[i] -= duals[m.Index[e]] * m.Value[e]
			}
		}
	}
	for j, d := range reduced {
		lower, upper := 0.0, Inf
		if p.Lower != nil {
			lower = p.Lower[j]
		}
		if p.Upper != nil {
			upper = p.Upper[j]
		}
		bound += support(d, lower, upper)
	}
	return sign * bound
}

// support is min over v in [lower, upper] of y·v.
func support(y, lower, upper float64) float64 {
	const tiny = 1e-9 // a reduced cost of noise on an unbounded column proves nothing against it
	switch {
	case y > 0 && math.IsInf(lower, -1), y < 0 && math.IsInf(upper, 1):
		if math.Abs(y) <= tiny {
			return 0
		}
		return math.Inf(-1)
	case y > 0:
		return y * lower
	case y < 0:
		return y * upper
	}
	return 0
}

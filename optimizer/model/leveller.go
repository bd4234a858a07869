// SPDX-License-Identifier: Apache-2.0

package model

import (
	"context"
	"fmt"
	"math"

	"github.com/edgeweir/weir/optimizer/highs"
)

// leveller finds, among the points of an LP that reach a given objective, the one whose levels are
// lexicographically min-max. Each unit limits a column or a row by a rising function of its level t. With V(t)
// the LP's optimum when all units that are not yet settled may reach t, a round finds the least t with
// V(t) = target by Newton's method from below: the duals of the LP at t bound V everywhere,
//
//	V(t') ≤ V(t) + Σ_u π_u (limit_u(t') − limit_u(t)),
//
// and the next t' is where that bound meets the target. When it is met, the units with π_u > 0 are at their limit in
// every optimum: they are settled there, and the next round lowers the rest. Each bound belongs to another dual
// vertex, so a round ends; each round settles a unit, so the rounds end.
type leveller struct {
	model  *highs.Model
	target float64 // in the model's objective
	units  []unit
}

// unit is one levelled limit of the model: of column `column`, or of row `row` where column < 0.
type unit struct {
	column, row int
	owner       int32   // units of one owner share its level and settle together; −1: alone
	limit       vessels // in tasks
	scale       float64 // tasks (or, for a row, resource) per unit of the model's bound
	worth       float64 // objective that a whole unit of the bound can bring, for the size of its dual
	settled     bool
	now         float64 // the bound as set; start it with −1
}

// Tolerances of the leveller, relative to the target and to a dual of one task per task.
const (
	reachTolerance = 1e-9
	dualTolerance  = 1e-7
	newtonSteps    = 100
)

// run returns the levelled point, in the model's units.
func (v *leveller) run(ctx context.Context) ([]float64, error) {
	for {
		x, settled, err := v.round(ctx)
		if err != nil || settled == 0 {
			return x, err
		}
	}
}

// round lowers the unsettled units together and settles those that can't go lower. No settled units means done.
func (v *leveller) round(ctx context.Context) (x []float64, settled int, err error) {
	t := math.Inf(-1)
	var last []float64 // π of the last bound
	for range newtonSteps {
		if err := v.set(t); err != nil {
			return nil, 0, err
		}
		s, err := v.model.Solve(ctx, highs.Options{Tolerance: solverTolerance, NoPresolve: true})
		if err != nil {
			return nil, 0, fmt.Errorf("level %.6g: %w", t, err)
		}
		if s.Status != highs.Optimal {
			return nil, 0, fmt.Errorf("level %.6g: solver ended with %v: %w", t, s.Status, ErrUnsolved)
		}
		if s.Objective >= v.target*(1-reachTolerance) {
			return s.X, v.settle(last), nil
		}
		last = v.duals(s)
		next := v.meet(t, s.Objective, last)
		if next <= t { // rounding: the bound says that t is enough
			return s.X, v.settle(last), nil
		}
		t = next
	}
	return nil, 0, fmt.Errorf("level %.6g: no end after %d steps: %w", t, newtonSteps, ErrUnsolved)
}

// set limits the unsettled units to level t.
func (v *leveller) set(t float64) error {
	for i := range v.units {
		u := &v.units[i]
		bound := u.limit.at(t) / u.scale
		if u.settled || bound == u.now {
			continue
		}
		u.now = bound
		var err error
		if u.column >= 0 {
			err = v.model.SetColumnBounds(u.column, 0, bound)
		} else {
			err = v.model.SetRowBounds(u.row, -inf, bound)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// duals is π_u of the unsettled units: what one more unit of the bound would add to the objective.
func (v *leveller) duals(s *highs.Solution) []float64 {
	out := make([]float64, len(v.units))
	for i := range v.units {
		u := &v.units[i]
		switch {
		case u.settled:
		case u.column >= 0:
			out[i] = math.Max(0, s.ReducedCosts[u.column])
		default:
			out[i] = math.Max(0, s.RowDuals[u.row])
		}
	}
	return out
}

// meet is the least t' at which the bound of the duals at t reaches the target.
func (v *leveller) meet(t, objective float64, duals []float64) float64 {
	var breaks []float64
	for i := range v.units {
		if duals[i] > 0 {
			breaks = v.units[i].limit.breaks(breaks)
		}
	}
	bound := func(at float64) float64 {
		sum := objective
		for i, d := range duals {
			if d > 0 {
				u := &v.units[i]
				sum += d * (u.limit.at(at) - u.limit.at(t)) / u.scale
			}
		}
		return sum
	}
	return levelOf(breaks, bound, v.target)
}

// settle fixes the owners of the units with a dual at their present bound and returns how many units that were.
func (v *leveller) settle(duals []float64) int {
	n, owners := 0, make(map[int32]bool)
	for i, d := range duals {
		u := &v.units[i]
		if !u.settled && d > dualTolerance*u.worth {
			u.settled = true
			n++
			if u.owner >= 0 {
				owners[u.owner] = true
			}
		}
	}
	for i := range v.units {
		if u := &v.units[i]; !u.settled && owners[u.owner] {
			u.settled = true
			n++
		}
	}
	return n
}

// SPDX-License-Identifier: Apache-2.0

package highs

import (
	"math"
	"time"
)

// Solution is what a solve ended with. X is nil where there is no point. For an LP with a point, RowDuals and
// ReducedCosts hold the duals in HiGHS's convention: d_j = c_j − Σ_i RowDuals_i a_ij in the problem's own sense.
type Solution struct {
	Status       Status
	X            []float64
	RowValues    []float64
	RowDuals     []float64
	ReducedCosts []float64
	Objective    float64 // at X, by our own sum
	Bound        float64 // no point can be better than this; ∓Inf where nothing is known
	Gap          float64 // |Objective − Bound| / max(|Objective|, 1e-12); 0 when proven
	Violation    float64 // of X, by our own check
	Iterations   int
	Nodes        int64
	Retried      bool // presolve was off for this answer after the first one was doubtful
	Elapsed      time.Duration
}

// doubtful answers are solved again without presolve.
func (s *Solution) doubtful() bool {
	switch s.Status {
	case Infeasible, UnboundedOrInfeasible, Unknown:
		return true
	case Optimal:
		return s.Violation > violationTolerance
	}
	return false
}

// attempt runs the solver once and reads what it ended with.
func (m *Model) attempt(o Options, began time.Time) (*Solution, error) {
	if o.SkipBasis {
		m.h.clearSolver()
	}
	if m.p.integers() > 0 && m.start != nil {
		if err := m.h.startPoint(m.start); err != nil {
			return nil, err
		}
	}
	m.configure(o, began)
	runErr := m.h.run()
	s := &Solution{Status: m.h.status(), Bound: m.noBound(), Gap: math.Inf(1), Elapsed: time.Since(began),
		Iterations: max(0, m.h.infoInt("simplex_iteration_count")), Nodes: m.h.infoInt64("mip_node_count")}
	if runErr != nil {
		s.Status = Unknown
		return s, runErr
	}
	m.readPoint(s)
	return s, nil
}

func (m *Model) configure(o Options, began time.Time) {
	h := m.h
	h.setInt("threads", useThreads())
	h.setInt("random_seed", o.Seed)
	h.setString("presolve", map[bool]string{true: "off", false: "choose"}[o.NoPresolve])
	h.setString("solver", map[bool]string{true: "ipm", false: "choose"}[o.InteriorPoint])
	limit := math.Inf(1)
	if o.TimeLimit > 0 {
		limit = math.Max(0, (o.TimeLimit - time.Since(began)).Seconds())
		if m.p.integers() == 0 { // for an LP HiGHS counts all runs of a model together, for a MIP each by itself
			limit += h.runTime()
		}
	}
	h.setDouble("time_limit", limit)
	h.setDouble("mip_rel_gap", o.RelativeGap)
	h.setDouble("mip_abs_gap", o.AbsoluteGap)
	tolerance := o.Tolerance
	if tolerance == 0 {
		tolerance = 1e-7
	}
	h.setDouble("primal_feasibility_tolerance", tolerance)
	h.setDouble("dual_feasibility_tolerance", tolerance)
}

// readPoint fills in the point, the duals and the bound.
func (m *Model) readPoint(s *Solution) {
	mip := m.p.integers() > 0
	if mip {
		s.Bound = m.h.infoDouble("mip_dual_bound")
	}
	if !m.h.feasible() || s.Status == Unbounded || s.Status == Infeasible {
		return
	}
	x, reduced, _, dual := m.h.solution(m.Columns(), m.Rows())
	activity := m.activity(x)
	s.Violation = violationAt(m.p, x, activity)
	if s.Status != Optimal && s.Violation > violationTolerance {
		return // a point of a limit that does not hold is no point
	}
	s.X, s.RowValues = x, activity
	s.Objective = ObjectiveAt(m.p, x)
	if !mip {
		s.RowDuals, s.ReducedCosts = dual, reduced
		if s.Status == Optimal {
			s.Bound = s.Objective
		}
	}
	s.Gap = math.Abs(s.Objective-s.Bound) / math.Max(math.Abs(s.Objective), 1e-12)
	if s.Objective == s.Bound {
		s.Gap = 0
	}
}

func (m *Model) activity(x []float64) []float64 {
	out := make([]float64, m.Rows())
	copy(out, RowValues(m.p, x))
	for _, e := range m.tail {
		out[e.row] += e.value * x[e.col]
	}
	return out
}

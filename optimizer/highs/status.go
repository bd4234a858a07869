// SPDX-License-Identifier: Apache-2.0

package highs

import "errors"

// Status says how a solve ended.
type Status int

// The ends of a solve. Only Optimal and, for a MIP, the limits come with a point (Solution.X not nil).
const (
	Unknown Status = iota
	Optimal
	Infeasible
	Unbounded
	UnboundedOrInfeasible
	TimeLimit
	Interrupted
	IterationLimit
	ObjectiveLimit
	SolutionLimit
)

var statusNames = [...]string{"unknown", "optimal", "infeasible", "unbounded", "unbounded or infeasible",
	"time limit", "interrupted", "iteration limit", "objective limit", "solution limit"}

func (s Status) String() string {
	if s < 0 || int(s) >= len(statusNames) {
		return "unknown"
	}
	return statusNames[s]
}

// Errors that callers branch on. A limit is no error: see Status.
var (
	// ErrViolated: HiGHS called a point optimal that breaks its rows or bounds, with and without presolve.
	ErrViolated = errors.New("solution violates its constraints")
	// ErrAbandoned: the solver did not stop in time; it ends on its own goroutine, its answer is dropped.
	ErrAbandoned = errors.New("solver did not stop in time")
	// ErrClosed: the Model was used after Close.
	ErrClosed = errors.New("model is closed")
)

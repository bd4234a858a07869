// SPDX-License-Identifier: Apache-2.0

package highs

/*
#cgo CFLAGS: -I/usr/include/highs
#cgo LDFLAGS: -lhighs
#include <stdlib.h>
#include <interfaces/highs_c_api.h>

// stop_when_raised interrupts the solver once Go has raised the flag. It stays in C: a call into Go from
// the solver's inner loop would cost more than the loop.
static void stop_when_raised(int type, const char *message, const HighsCallbackDataOut *out,
                             HighsCallbackDataIn *in, void *flag) {
  if (in && __atomic_load_n((int *)flag, __ATOMIC_RELAXED)) in->user_interrupt = 1;
}

static void watch(void *highs, int *flag) {
  Highs_setCallback(highs, stop_when_raised, flag);
  Highs_startCallback(highs, kHighsCallbackSimplexInterrupt);
  Highs_startCallback(highs, kHighsCallbackIpmInterrupt);
  Highs_startCallback(highs, kHighsCallbackMipInterrupt);
}

static void raise_flag(int *flag, int to) { __atomic_store_n(flag, to, __ATOMIC_RELAXED); }
*/
import "C"

import (
	"fmt"
	"unsafe"
)

// handle owns one Highs object and the flag that interrupts it. Not safe for concurrent use, except raise.
type handle struct {
	h    unsafe.Pointer
	flag *C.int
}

func newHandle() *handle {
	h := &handle{h: C.Highs_create(), flag: (*C.int)(C.calloc(1, C.size_t(unsafe.Sizeof(C.int(0)))))}
	h.setBool("output_flag", false)
	C.watch(h.h, h.flag)
	return h
}

func (h *handle) destroy() {
	C.Highs_destroy(h.h)
	C.free(unsafe.Pointer(h.flag))
	h.h, h.flag = nil, nil
}

func (h *handle) raise()   { C.raise_flag(h.flag, 1) }
func (h *handle) unraise() { C.raise_flag(h.flag, 0) }

func (h *handle) setBool(name string, v bool) {
	c := C.CString(name)
	defer C.free(unsafe.Pointer(c))
	var i C.HighsInt
	if v {
		i = 1
	}
	C.Highs_setBoolOptionValue(h.h, c, i)
}

func (h *handle) setInt(name string, v int) {
	c := C.CString(name)
	defer C.free(unsafe.Pointer(c))
	C.Highs_setIntOptionValue(h.h, c, C.HighsInt(v))
}

func (h *handle) setDouble(name string, v float64) {
	c := C.CString(name)
	defer C.free(unsafe.Pointer(c))
	C.Highs_setDoubleOptionValue(h.h, c, C.double(v))
}

func (h *handle) setString(name, v string) {
	c, s := C.CString(name), C.CString(v)
	defer C.free(unsafe.Pointer(c))
	defer C.free(unsafe.Pointer(s))
	C.Highs_setStringOptionValue(h.h, c, s)
}

func (h *handle) infoDouble(name string) float64 {
	c := C.CString(name)
	defer C.free(unsafe.Pointer(c))
	var v C.double
	C.Highs_getDoubleInfoValue(h.h, c, &v)
	return float64(v)
}

func (h *handle) infoInt(name string) int {
	c := C.CString(name)
	defer C.free(unsafe.Pointer(c))
	var v C.HighsInt
	C.Highs_getIntInfoValue(h.h, c, &v)
	return int(v)
}

func (h *handle) infoInt64(name string) int64 {
	c := C.CString(name)
	defer C.free(unsafe.Pointer(c))
	var v C.int64_t
	C.Highs_getInt64InfoValue(h.h, c, &v)
	return int64(v)
}

func doubles(v []float64) *C.double { return (*C.double)(unsafe.SliceData(v)) }
func ints(v []int32) *C.HighsInt    { return (*C.HighsInt)(unsafe.SliceData(v)) }

// failed turns a call's status into an error. A warning (1) is none: the point is checked afterwards.
func failed(what string, status C.HighsInt) error {
	if status == C.kHighsStatusError {
		return fmt.Errorf("highs: %s: solver refused it", what)
	}
	return nil
}

// pass hands over a normalised problem.
func (h *handle) pass(p *Problem) error {
	format, sense := C.kHighsMatrixFormatRowwise, C.kHighsObjSenseMinimize
	if p.Matrix.Layout == Colwise {
		format = C.kHighsMatrixFormatColwise
	}
	if p.Sense == Maximize {
		sense = C.kHighsObjSenseMaximize
	}
	cols, rows, nz := C.HighsInt(len(p.Cost)), C.HighsInt(len(p.RowLower)), C.HighsInt(len(p.Matrix.Index))
	var status C.HighsInt
	if p.integers() > 0 {
		status = C.Highs_passMip(h.h, cols, rows, nz, C.HighsInt(format), C.HighsInt(sense), C.double(p.Offset),
			doubles(p.Cost), doubles(p.Lower), doubles(p.Upper), doubles(p.RowLower), doubles(p.RowUpper),
			ints(p.Matrix.Start), ints(p.Matrix.Index), doubles(p.Matrix.Value), ints(kinds(p.Integer)))
	} else {
		status = C.Highs_passLp(h.h, cols, rows, nz, C.HighsInt(format), C.HighsInt(sense), C.double(p.Offset),
			doubles(p.Cost), doubles(p.Lower), doubles(p.Upper), doubles(p.RowLower), doubles(p.RowUpper),
			ints(p.Matrix.Start), ints(p.Matrix.Index), doubles(p.Matrix.Value))
	}
	if err := failed("pass model", status); err != nil || p.Hessian == nil {
		return err
	}
	q := p.Hessian
	return failed("pass hessian", C.Highs_passHessian(h.h, cols, C.HighsInt(len(q.Index)),
		C.kHighsHessianFormatTriangular, ints(q.Start), ints(q.Index), doubles(q.Value)))
}

func kinds(integer []bool) []int32 {
	out := make([]int32, len(integer))
	for j, b := range integer {
		if b {
			out[j] = int32(C.kHighsVarTypeInteger)
		}
	}
	return out
}

func (h *handle) addRows(lower, upper []float64, m Matrix) error {
	return failed("add rows", C.Highs_addRows(h.h, C.HighsInt(len(lower)), doubles(lower), doubles(upper),
		C.HighsInt(len(m.Index)), ints(m.Start), ints(m.Index), doubles(m.Value)))
}

func (h *handle) addColumns(cost, lower, upper []float64, m Matrix) error {
	return failed("add columns", C.Highs_addCols(h.h, C.HighsInt(len(cost)), doubles(cost), doubles(lower),
		doubles(upper), C.HighsInt(len(m.Index)), ints(m.Start), ints(m.Index), doubles(m.Value)))
}

func (h *handle) setIntegrality(from, to int, integer []bool) error {
	return failed("set integrality", C.Highs_changeColsIntegralityByRange(h.h, C.HighsInt(from), C.HighsInt(to-1),
		ints(kinds(integer))))
}

func (h *handle) columnBounds(j int, lower, upper float64) error {
	return failed("change column bounds", C.Highs_changeColBounds(h.h, C.HighsInt(j), C.double(lower), C.double(upper)))
}

func (h *handle) rowBounds(i int, lower, upper float64) error {
	return failed("change row bounds", C.Highs_changeRowBounds(h.h, C.HighsInt(i), C.double(lower), C.double(upper)))
}

func (h *handle) columnCost(j int, cost float64) error {
	return failed("change cost", C.Highs_changeColCost(h.h, C.HighsInt(j), C.double(cost)))
}

func (h *handle) startPoint(x []float64) error {
	return failed("set start", C.Highs_setSolution(h.h, doubles(x), nil, nil, nil))
}

func (h *handle) clearSolver() { C.Highs_clearSolver(h.h) }

// runTime is the time of all runs so far, in seconds.
func (h *handle) runTime() float64 { return float64(C.Highs_getRunTime(h.h)) }

func (h *handle) run() error { return failed("run", C.Highs_run(h.h)) }

func (h *handle) status() Status {
	switch C.Highs_getModelStatus(h.h) {
	case C.kHighsModelStatusOptimal, C.kHighsModelStatusModelEmpty:
		return Optimal
	case C.kHighsModelStatusInfeasible:
		return Infeasible
	case C.kHighsModelStatusUnbounded:
		return Unbounded
	case C.kHighsModelStatusUnboundedOrInfeasible:
		return UnboundedOrInfeasible
	case C.kHighsModelStatusTimeLimit:
		return TimeLimit
	case C.kHighsModelStatusInterrupt:
		return Interrupted
	case C.kHighsModelStatusIterationLimit:
		return IterationLimit
	case C.kHighsModelStatusObjectiveBound, C.kHighsModelStatusObjectiveTarget:
		return ObjectiveLimit
	case C.kHighsModelStatusSolutionLimit:
		return SolutionLimit
	}
	return Unknown
}

// feasible says whether the solver holds a point that it believes feasible.
func (h *handle) feasible() bool {
	return C.HighsInt(h.infoInt("primal_solution_status")) == C.kHighsSolutionStatusFeasible
}

func (h *handle) solution(cols, rows int) (x, reduced, activity, dual []float64) {
	x, reduced = make([]float64, cols), make([]float64, cols)
	activity, dual = make([]float64, rows), make([]float64, rows)
	C.Highs_getSolution(h.h, doubles(x), doubles(reduced), doubles(activity), doubles(dual))
	return x, reduced, activity, dual
}

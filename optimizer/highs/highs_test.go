// SPDX-License-Identifier: Apache-2.0

package highs

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func solve(t *testing.T, p *Problem) *Solution {
	t.Helper()
	s, err := Solve(context.Background(), p, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-6*math.Max(1, math.Abs(b)) }

// max 3x + 2y, x + y ≤ 4, x + 3y ≤ 6, x ≤ 3: (3, 1), 11.
func textbook() *Problem {
	return &Problem{Sense: Maximize, Cost: []float64{3, 2}, Upper: []float64{3, Inf},
		RowLower: []float64{-Inf, -Inf}, RowUpper: []float64{4, 6},
		Matrix: Matrix{Start: []int32{0, 2, 4}, Index: []int32{0, 1, 0, 1}, Value: []float64{1, 1, 1, 3}}}
}

func TestLP(t *testing.T) {
	p := textbook()
	s := solve(t, p)
	if s.Status != Optimal || !near(s.Objective, 11) || !near(s.X[0], 3) || !near(s.X[1], 1) {
		t.Fatalf("got %+v", s)
	}
	if b := DualBound(p, s.RowDuals); !near(b, 11) {
		t.Errorf("dual bound %v, want 11", b)
	}
	if b := DualBound(p, []float64{-5, 7}); b < 11 {
		t.Errorf("bound from arbitrary duals %v is below the optimum", b)
	}
}

func TestColwiseEqualsRowwise(t *testing.T) {
	p := textbook()
	p.Matrix = Matrix{Layout: Colwise, Start: []int32{0, 2, 4}, Index: []int32{0, 1, 0, 1}, Value: []float64{1, 1, 1, 3}}
	if s := solve(t, p); !near(s.Objective, 11) {
		t.Errorf("got %v", s.Objective)
	}
}

func TestStatuses(t *testing.T) {
	one := func(sense Sense, cost, upper, rowLower, rowUpper float64) *Problem {
		return &Problem{Sense: sense, Cost: []float64{cost}, Upper: []float64{upper}, RowLower: []float64{rowLower},
			RowUpper: []float64{rowUpper}, Matrix: Matrix{Start: []int32{0, 1}, Index: []int32{0}, Value: []float64{1}}}
	}
	for name, c := range map[string]struct {
		p    *Problem
		want Status
		x    bool
	}{
		"infeasible row":     {one(Minimize, 1, 1, 2, Inf), Infeasible, false},
		"unbounded":          {one(Maximize, 1, Inf, 0, Inf), Unbounded, false},
		"crossing bounds":    {one(Minimize, 1, -1, 0, 1), Infeasible, false},
		"crossing row":       {one(Minimize, 1, 1, 1, 0), Infeasible, false},
		"empty":              {&Problem{Offset: 7}, Optimal, true},
		"no columns, a row":  {&Problem{RowLower: []float64{0}, RowUpper: []float64{0}}, Optimal, true},
		"no columns, broken": {&Problem{RowLower: []float64{1}, RowUpper: []float64{2}}, Infeasible, false},
		"no rows":            {&Problem{Sense: Maximize, Cost: []float64{1}, Upper: []float64{5}}, Optimal, true},
		"empty row": {&Problem{Cost: []float64{1}, RowLower: []float64{-1}, RowUpper: []float64{1},
			Matrix: Matrix{Start: []int32{0, 0}}}, Optimal, true},
		"empty row, broken": {&Problem{Cost: []float64{1}, RowLower: []float64{1}, RowUpper: []float64{1},
			Matrix: Matrix{Start: []int32{0, 0}}}, Infeasible, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := solve(t, c.p)
			if s.Status != c.want || (s.X != nil) != c.x {
				t.Errorf("status %v with point %v, want %v with %v", s.Status, s.X, c.want, c.x)
			}
		})
	}
}

func TestDuplicateEntriesAddUp(t *testing.T) {
	p := &Problem{Sense: Maximize, Cost: []float64{1}, RowLower: []float64{-Inf}, RowUpper: []float64{6},
		Matrix: Matrix{Start: []int32{0, 3}, Index: []int32{0, 0, 0}, Value: []float64{1, 1, 1}}}
	if s := solve(t, p); !near(s.X[0], 2) {
		t.Errorf("x = %v, want 2", s.X)
	}
}

func TestBadProblems(t *testing.T) {
	nan := math.NaN()
	for name, p := range map[string]*Problem{
		"cost":    {Cost: []float64{nan}},
		"bound":   {Cost: []float64{1}, Upper: []float64{nan}},
		"lengths": {Cost: []float64{1}, Upper: []float64{1, 2}},
		"index": {Cost: []float64{1}, RowLower: []float64{0}, RowUpper: []float64{1},
			Matrix: Matrix{Start: []int32{0, 1}, Index: []int32{1}, Value: []float64{1}}},
		"value": {Cost: []float64{1}, RowLower: []float64{0}, RowUpper: []float64{1},
			Matrix: Matrix{Start: []int32{0, 1}, Index: []int32{0}, Value: []float64{nan}}},
		"integer hessian": {Cost: []float64{1}, Integer: []bool{true},
			Hessian: &Hessian{Start: []int32{0, 1}, Index: []int32{0}, Value: []float64{1}}},
	} {
		if _, err := Solve(context.Background(), p, Options{}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestQP(t *testing.T) { // min ½(2x² + 2y²) − 2x − 5y, x + y ≤ 2: (0.25, 1.75)
	p := &Problem{Cost: []float64{-2, -5}, RowLower: []float64{-Inf}, RowUpper: []float64{2},
		Matrix:  Matrix{Start: []int32{0, 2}, Index: []int32{0, 1}, Value: []float64{1, 1}},
		Hessian: &Hessian{Start: []int32{0, 1, 2}, Index: []int32{0, 1}, Value: []float64{2, 2}}}
	s := solve(t, p)
	if s.Status != Optimal || math.Abs(s.X[0]-0.25) > 1e-5 || math.Abs(s.X[1]-1.75) > 1e-5 {
		t.Fatalf("got %+v", s)
	}
	if want := 0.25*0.25 + 1.75*1.75 - 0.5 - 8.75; math.Abs(s.Objective-want) > 1e-5 {
		t.Errorf("objective %v, want %v", s.Objective, want)
	}
}

// knapsack is a market-split-like MIP that takes HiGHS much longer than the test's limits.
func knapsack(n, rows int) *Problem {
	r := rand.New(rand.NewPCG(1, 2))
	p := &Problem{Cost: make([]float64, n+2*rows), Integer: make([]bool, n+2*rows),
		Lower: make([]float64, n+2*rows), Upper: make([]float64, n+2*rows),
		Matrix: Matrix{Start: []int32{0}}, Start: make([]float64, n+2*rows)}
	for j := range n {
		p.Integer[j], p.Upper[j] = true, 1
	}
	for i := range rows {
		half := 0.0
		for j := range n {
			v := float64(r.IntN(100))
			half += v
			p.Matrix.Index, p.Matrix.Value = append(p.Matrix.Index, int32(j)), append(p.Matrix.Value, v)
		}
		half = math.Floor(half / 2)
		for k, v := range []float64{1, -1} {
			j := n + 2*i + k
			p.Cost[j], p.Upper[j] = 1, Inf
			p.Matrix.Index, p.Matrix.Value = append(p.Matrix.Index, int32(j)), append(p.Matrix.Value, v)
		}
		p.Start[n+2*i] = half
		p.Matrix.Start = append(p.Matrix.Start, int32(len(p.Matrix.Index)))
		p.RowLower, p.RowUpper = append(p.RowLower, half), append(p.RowUpper, half)
	}
	return p
}

func TestMIPKeepsItsIncumbentAtTheTimeLimit(t *testing.T) {
	p := knapsack(50, 6)
	began := time.Now()
	s, err := Solve(context.Background(), p, Options{TimeLimit: 300 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if s.Status != TimeLimit && s.Status != Interrupted {
		t.Fatalf("status %v", s.Status)
	}
	if s.X == nil || s.Bound > s.Objective || s.Gap <= 0 || s.Violation > 1e-6 {
		t.Errorf("x %v bound %v objective %v gap %v violation %v", s.X != nil, s.Bound, s.Objective, s.Gap, s.Violation)
	}
	if start := ObjectiveAt(p, p.Start); s.Objective > start {
		t.Errorf("objective %v is worse than the start's %v", s.Objective, start)
	}
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("took %v", took)
	}
}

func TestContextInterrupts(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	s, err := Solve(ctx, knapsack(50, 6), Options{})
	if err != nil || s.Status != Interrupted {
		t.Fatalf("status %v, err %v", s, err)
	}
	if s, err := Solve(ctx, textbook(), Options{}); err != nil || s.Status != Interrupted {
		t.Errorf("ended context: %v, %v", s, err)
	}
}

func TestMIPProven(t *testing.T) { // max 5x + 4y, 6x + 4y ≤ 24, x + 2y ≤ 6, integer: (4, 0), 20
	p := &Problem{Sense: Maximize, Cost: []float64{5, 4}, Integer: []bool{true, true},
		RowLower: []float64{-Inf, -Inf}, RowUpper: []float64{24, 6},
		Matrix: Matrix{Start: []int32{0, 2, 4}, Index: []int32{0, 1, 0, 1}, Value: []float64{6, 4, 1, 2}}}
	if s := solve(t, p); s.Status != Optimal || !near(s.Objective, 20) || !near(s.Bound, 20) || s.Gap > 1e-9 {
		t.Errorf("got %+v", s)
	}
}

func TestModelGrowsAndStartsHot(t *testing.T) {
	m, err := NewModel(textbook())
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	step := func(want float64) *Solution {
		t.Helper()
		s, err := m.Solve(context.Background(), Options{TimeLimit: time.Minute})
		if err != nil || s.Status != Optimal || !near(s.Objective, want) {
			t.Fatalf("got %+v, %v, want %v", s, err, want)
		}
		return s
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	step(11)
	must(m.AddRows([]float64{-Inf}, []float64{2}, Matrix{Start: []int32{0, 1}, Index: []int32{0}, Value: []float64{1}}))
	step(6 + 8.0/3)
	must(m.AddColumns([]float64{10}, []float64{0}, []float64{1}, nil,
		Matrix{Layout: Colwise, Start: []int32{0, 1}, Index: []int32{2}, Value: []float64{2}}))
	step(10 + 4)
	must(m.SetCost(2, 1))
	step(6 + 8.0/3)
	must(m.SetColumnBounds(1, 0, 1))
	step(8)
	must(m.SetRowBounds(2, -Inf, 1))
	if s := step(5); s.Iterations > 3 {
		t.Errorf("%d iterations from a hot start", s.Iterations)
	}
	m.Close()
	if _, err := m.Solve(context.Background(), Options{}); !errors.Is(err, ErrClosed) {
		t.Errorf("after close: %v", err)
	}
}

func TestTimeLimitIsPerSolve(t *testing.T) {
	m, err := NewModel(knapsack(50, 6))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for range 3 {
		s, err := m.Solve(context.Background(), Options{TimeLimit: 150 * time.Millisecond})
		if err != nil || s.Status != TimeLimit || s.Elapsed < 100*time.Millisecond || s.Elapsed > 250*time.Millisecond {
			t.Fatalf("got %v in %v, %v", s.Status, s.Elapsed, err)
		}
	}
}

func TestThreadsAreFixed(t *testing.T) {
	solve(t, textbook())
	if err := SetThreads(useThreads() + 1); err == nil {
		t.Error("no error after the first solve")
	}
	if err := SetThreads(0); err == nil {
		t.Error("no error for 0")
	}
}

func TestViolation(t *testing.T) {
	p := textbook()
	for _, c := range []struct{ x, y, want float64 }{{3, 1, 0}, {4, 0, 1.0 / 3}, {-1, 0, 1}, {0, 3, 0.5}} {
		if got := Violation(p, []float64{c.x, c.y}); !near(got, c.want) {
			t.Errorf("violation at (%v, %v) = %v, want %v", c.x, c.y, got, c.want)
		}
	}
	if got := Violation(p, []float64{math.NaN(), 0}); !math.IsInf(got, 1) {
		t.Errorf("violation at NaN = %v", got)
	}
}

func TestSilence(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := dupStdout(w, func() { solve(t, textbook()); solve(t, knapsack(8, 1)) }); err != nil {
		t.Fatal(err)
	}
	w.Close()
	buf := make([]byte, 100)
	if n, _ := r.Read(buf); n > 0 {
		t.Errorf("standard output has %q", buf[:n])
	}
}

// Random LPs: the point holds and the duals prove it.
func TestStrongDuality(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cols, rows := rapid.IntRange(1, 8).Draw(t, "cols"), rapid.IntRange(0, 8).Draw(t, "rows")
		num := rapid.Float64Range(-10, 10)
		p := &Problem{Sense: Sense(rapid.IntRange(0, 1).Draw(t, "sense")), Offset: num.Draw(t, "offset"),
			Matrix: Matrix{Start: []int32{0}}}
		for range cols {
			p.Cost = append(p.Cost, num.Draw(t, "cost"))
			p.Lower = append(p.Lower, 0)
			p.Upper = append(p.Upper, rapid.Float64Range(0, 10).Draw(t, "upper"))
		}
		for range rows {
			for j := range cols {
				if rapid.Bool().Draw(t, "in") {
					p.Matrix.Index = append(p.Matrix.Index, int32(j))
					p.Matrix.Value = append(p.Matrix.Value, float64(rapid.IntRange(-5, 5).Draw(t, "a")))
				}
			}
			p.Matrix.Start = append(p.Matrix.Start, int32(len(p.Matrix.Index)))
			lower := num.Draw(t, "lower")
			p.RowLower = append(p.RowLower, lower)
			p.RowUpper = append(p.RowUpper, lower+rapid.Float64Range(0, 20).Draw(t, "width"))
		}
		s, err := Solve(context.Background(), p, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if s.Status == Infeasible {
			return
		}
		if s.Status != Optimal || Violation(p, s.X) > 1e-6 {
			t.Fatalf("status %v, violation %v", s.Status, s.Violation)
		}
		if b := DualBound(p, s.RowDuals); math.Abs(b-s.Objective) > 1e-5*math.Max(1, math.Abs(b)) {
			t.Fatalf("bound %v, objective %v", b, s.Objective)
		}
	})
}

// TestTimeLimitIsPerSolveOfAnLP: many quick solves of one model together may take longer than the limit of each.
func TestTimeLimitIsPerSolveOfAnLP(t *testing.T) {
	p := knapsack(400, 100)
	p.Integer = nil
	m, err := NewModel(p)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	const limit = 300 * time.Millisecond
	for took := time.Duration(0); took < limit+limit/2; {
		s, err := m.Solve(context.Background(), Options{SkipBasis: true, TimeLimit: limit})
		if err != nil || s.Status != Optimal {
			t.Fatalf("after %v: %v, %v", took, s.Status, err)
		}
		took += s.Elapsed
	}
}

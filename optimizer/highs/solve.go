// SPDX-License-Identifier: Apache-2.0

package highs

import (
	"context"
	"fmt"
	"runtime"
	"time"
)

// grace is how long Solve waits for an interrupted solver before it goes on without it.
const grace = time.Second

// Solve solves p once. It returns within a second of the time limit or of the end of ctx even when the solver
// does not (ErrAbandoned): then the solver ends, and is freed, on its own goroutine.
func Solve(ctx context.Context, p *Problem, o Options) (*Solution, error) {
	if o.TimeLimit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.TimeLimit+o.TimeLimit/10)
		defer cancel()
	}
	if ctx.Done() == nil {
		return solveHere(ctx, p, o)
	}
	type answer struct {
		s   *Solution
		err error
	}
	done := make(chan answer, 1)
	go func() {
		s, err := solveHere(ctx, p, o)
		done <- answer{s, err}
	}()
	select {
	case a := <-done:
		return a.s, a.err
	case <-ctx.Done():
	}
	late := time.NewTimer(grace)
	defer late.Stop()
	select {
	case a := <-done:
		return a.s, a.err
	case <-late.C:
		return nil, fmt.Errorf("highs: %d columns: %w", len(p.Cost), ErrAbandoned)
	}
}

// solveHere creates, solves and destroys on one thread, since HiGHS keeps its scheduler per thread.
func solveHere(ctx context.Context, p *Problem, o Options) (*Solution, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	m, err := NewModel(p)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	return m.Solve(ctx, o)
}

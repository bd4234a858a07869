// SPDX-License-Identifier: Apache-2.0

package highs

import (
	"fmt"
	"sync"
	"time"
)

// Options of one solve. The zero value solves to optimality without a time limit.
type Options struct {
	TimeLimit     time.Duration // 0: none
	NoPresolve    bool
	RelativeGap   float64 // of a MIP: (incumbent − bound) / |incumbent| to stop at; 0: prove it
	AbsoluteGap   float64
	Tolerance     float64 // of rows, bounds and reduced costs inside HiGHS; 0: 1e-7
	InteriorPoint bool    // for an LP; simplex otherwise
	Seed          int
	SkipBasis     bool // start from nothing instead of the last basis
}

var threads struct {
	sync.Mutex
	n    int
	used bool
}

// SetThreads sets the number of threads of every solve in this process: HiGHS fails when it changes between
// solves. The default is 1, since parallelism comes from solving independent models side by side. It is an
// error after the first solve, unless n is the value in use.
func SetThreads(n int) error {
	threads.Lock()
	defer threads.Unlock()
	if n < 1 {
		return fmt.Errorf("highs: threads is %d, want 1 or more", n)
	}
	if threads.used && n != threads.n {
		return fmt.Errorf("highs: threads is %d since the first solve, can't become %d", threads.n, n)
	}
	threads.n = n
	return nil
}

func useThreads() int {
	threads.Lock()
	defer threads.Unlock()
	if threads.n == 0 {
		threads.n = 1
	}
	threads.used = true
	return threads.n
}

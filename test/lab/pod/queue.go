// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"math/rand/v2"
	"sync"
	"time"
)

// queue is a first-come first-served queue before a fixed number of workers. A
// request occupies a worker for a service time, exponentially distributed and
// drawn in the order in which service begins. Workers sleep: a busy pod takes a
// worker's time, but no CPU.
type queue struct {
	waiting chan func()
	workers sync.WaitGroup
	usage   usage

	mu     sync.Mutex
	random *rand.Rand
	mean   time.Duration
	shape  int
}

// newQueue starts the workers. The queue holds at most limit waiting requests.
func newQueue(workers, limit int, mean time.Duration, shape int, seed uint64) *queue {
	q := &queue{
		waiting: make(chan func(), limit),
		random:  rand.New(rand.NewPCG(seed, 0)),
		mean:    mean,
		shape:   max(shape, 1),
	}
	for range workers {
		q.workers.Go(q.work)
	}
	return q
}

// offer puts a request into the queue; its done runs when it was served. It is
// false, and the request refused, when the queue is full.
func (q *queue) offer(done func()) bool {
	select {
	case q.waiting <- done:
		return true
	default:
		return false
	}
}

// drain serves what waits and ends the workers. Nothing may be offered any more.
func (q *queue) drain() {
	close(q.waiting)
	q.workers.Wait()
}

func (q *queue) work() {
	for done := range q.waiting {
		q.usage.begin(time.Now())
		time.Sleep(q.draw())
		q.usage.end(time.Now())
		done()
	}
}

func (q *queue) draw() time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	sum := 0.0
	for range q.shape {
		sum += q.random.ExpFloat64()
	}
	return time.Duration(sum / float64(q.shape) * float64(q.mean))
}

// usage integrates the number of busy workers over time.
type usage struct {
	mu     sync.Mutex
	busy   int
	last   time.Time // of the last change of busy
	before time.Duration
	served uint64
}

func (u *usage) begin(now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.advance(now)
	u.busy++
}

func (u *usage) end(now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.advance(now)
	u.busy--
	u.served++
}

// advance brings the integral up to now. Workers may come here in another order
// than they looked at the clock, so time does not run backwards.
func (u *usage) advance(now time.Time) {
	if now.After(u.last) {
		u.before += time.Duration(u.busy) * now.Sub(u.last)
		u.last = now
	}
}

// read returns the worker time used until now, of requests under way too, and how
// many requests were served.
func (u *usage) read(now time.Time) (used time.Duration, busy int, served uint64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.advance(now)
	return u.before, u.busy, u.served
}

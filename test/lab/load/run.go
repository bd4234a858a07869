// SPDX-License-Identifier: Apache-2.0

package load

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// runner is one run under way.
type runner struct {
	plan  *Plan
	start time.Time
	ports *ports

	mu       sync.Mutex
	tally    *tally
	inFlight int
	lag      time.Duration
	log      *json.Encoder
	logErr   error
}

// Run carries out a checked plan, writes one Record a line to log, and calls
// progress about every second and once at the end. When the context ends no more
// connections are made and those under way are given up; the result is of what
// was done until then.
func Run(ctx context.Context, plan *Plan, log io.Writer, progress func(Progress)) (Result, error) {
	arrivals, err := plan.Arrivals()
	if err != nil {
		return Result{}, err
	}
	r := &runner{
		plan: plan, start: time.Now(), ports: newPorts(plan.FirstPort),
		tally: newTally(plan.Streams), log: json.NewEncoder(log),
	}
	stop, reported := make(chan struct{}), make(chan struct{})
	go func() {
		r.report(stop, progress)
		close(reported)
	}()
	r.make(ctx, arrivals)
	close(stop)
	<-reported
	if r.logErr != nil {
		return r.result(), fmt.Errorf("write the log of connections: %w", r.logErr)
	}
	return r.result(), ctx.Err()
}

// make starts every connection at its time and waits for all to end.
func (r *runner) make(ctx context.Context, arrivals []Arrival) {
	var connections sync.WaitGroup
	defer connections.Wait()
	for _, a := range arrivals {
		intended := r.start.Add(a.At)
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Until(intended)):
		}
		stream := r.plan.Streams[a.Stream]
		record := Record{Service: stream.Service, Node: stream.Node, Start: intended}
		if !r.begin(a, intended) {
			r.end(a, record, errTooMany)
			continue
		}
		connections.Go(func() {
			ctx, cancel := context.WithDeadline(ctx, intended.Add(time.Duration(r.plan.Timeout)))
			defer cancel()
			err := connect(ctx, stream, r.ports, &record)
			r.mu.Lock()
			r.inFlight--
			r.mu.Unlock()
			r.end(a, record, err)
		})
	}
}

var errTooMany = errors.New("skipped: maxConcurrent connections are under way")

// begin counts an arrival, and says whether its connection may be made.
func (r *runner) begin(a Arrival, intended time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lag = max(r.lag, time.Since(intended))
	r.tally.offer(a.Stream)
	if r.inFlight >= r.plan.MaxConcurrent {
		return false
	}
	r.inFlight++
	return true
}

// end counts and logs what became of an arrival.
func (r *runner) end(a Arrival, record Record, err error) {
	record.TotalMillis = millis(time.Since(record.Start))
	if err != nil {
		record.Error = err.Error()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tally.end(a.Stream, record)
	if err := r.log.Encode(record); err != nil && r.logErr == nil {
		r.logErr = err
	}
}

// report calls progress every second until stop is closed, and once more.
func (r *runner) report(stop <-chan struct{}, progress func(Progress)) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for ended := false; !ended; {
		select {
		case <-ticker.C:
		case <-stop:
			ended = true
		}
		r.mu.Lock()
		p := Progress{
			ElapsedSeconds: time.Since(r.start).Seconds(), InFlight: r.inFlight,
			Total: r.tally.total.summary(true), Streams: r.tally.streamResults(false),
		}
		r.mu.Unlock()
		progress(p)
	}
}

func (r *runner) result() Result {
	r.mu.Lock()
	defer r.mu.Unlock()
	reused, next := r.ports.state()
	return Result{
		Seed: r.plan.Seed, Start: r.start, ReusedPorts: reused, NextPort: next, LagMillisMax: millis(r.lag),
		Total: r.tally.total.summary(true), Streams: r.tally.streamResults(true),
	}
}

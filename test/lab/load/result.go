// SPDX-License-Identifier: Apache-2.0

package load

import (
	"maps"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Result sums a run up.
type Result struct {
	Seed  uint64    `json:"seed"`
	Start time.Time `json:"start"`
	// ReusedPorts counts source ports taken more than once; NextPort is where a
	// later run goes on without reuse, 0 when every port of an address is used.
	ReusedPorts int    `json:"reusedPorts"`
	NextPort    uint16 `json:"nextPort"`
	// LagMillisMax is by how much the generator itself was late, at worst. It is
	// part of the latencies.
	LagMillisMax float64        `json:"lagMillisMax"`
	Total        Summary        `json:"total"`
	Streams      []StreamResult `json:"streams"`
}

// StreamResult sums one stream up.
type StreamResult struct {
	Service string         `json:"service"`
	Node    string         `json:"node"`
	Pods    map[string]int `json:"pods"` // completed connections by the pod that answered
	Summary
}

// Summary counts arrivals. Offered = Connections + those skipped, and
// Offered = Completed + Failed once the run has ended. Percentiles are over all
// that were offered: one that failed counts with the time until it did.
type Summary struct {
	Offered     int     `json:"offered"`
	Connections int     `json:"connections"` // for which something was sent
	Completed   int     `json:"completed"`
	Failed      int     `json:"failed"`
	P50Millis   float64 `json:"p50Millis"`
	P90Millis   float64 `json:"p90Millis"`
	P99Millis   float64 `json:"p99Millis"`
	MaxMillis   float64 `json:"maxMillis"`
}

// Progress is the state of a run under way. Its streams are without percentiles.
type Progress struct {
	ElapsedSeconds float64        `json:"elapsedSeconds"`
	InFlight       int            `json:"inFlight"`
	Total          Summary        `json:"total"`
	Streams        []StreamResult `json:"streams"`
}

// tally sums records up as they come. Not safe for concurrent use.
type tally struct {
	total   counts
	streams []counts
}

type counts struct {
	stream                                  Stream
	offered, connections, completed, failed int
	pods                                    map[string]int
	latency                                 *hdrhistogram.Histogram
}

func newCounts(s Stream) counts {
	const lowest, highest, digits = 1, 3_600_000_000, 3 // µs
	return counts{stream: s, pods: map[string]int{}, latency: hdrhistogram.New(lowest, highest, digits)}
}

func newTally(streams []Stream) *tally {
	t := &tally{total: newCounts(Stream{})}
	for _, s := range streams {
		t.streams = append(t.streams, newCounts(s))
	}
	return t
}

func (t *tally) offer(stream int) {
	t.total.offered++
	t.streams[stream].offered++
}

func (t *tally) end(stream int, r Record) {
	for _, c := range []*counts{&t.total, &t.streams[stream]} {
		if r.Source != "" {
			c.connections++
		}
		if r.Error == "" {
			c.completed++
			c.pods[r.Pod]++
		} else {
			c.failed++
		}
		us := int64(r.TotalMillis * 1000)
		_ = c.latency.RecordValue(min(max(us, 1), c.latency.HighestTrackableValue()))
	}
}

// summary has percentiles only where latency is true: they cost time.
func (c *counts) summary(latency bool) Summary {
	s := Summary{Offered: c.offered, Connections: c.connections, Completed: c.completed, Failed: c.failed}
	if latency {
		at := func(q float64) float64 { return float64(c.latency.ValueAtQuantile(q)) / 1000 }
		s.P50Millis, s.P90Millis, s.P99Millis = at(50), at(90), at(99)
		s.MaxMillis = float64(c.latency.Max()) / 1000
	}
	return s
}

func (t *tally) streamResults(latency bool) []StreamResult {
	var results []StreamResult
	for i := range t.streams {
		c := &t.streams[i]
		results = append(results, StreamResult{
			Service: c.stream.Service, Node: c.stream.Node, Pods: maps.Clone(c.pods), Summary: c.summary(latency),
		})
	}
	return results
}

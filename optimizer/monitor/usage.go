// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"math"
	"time"
)

// Usage is what nodes and pods consume, as one reading of a monitoring system
// told it: cpu in cores, memory in bytes, network in bytes per second. What it
// does not know is absent, not zero.
type Usage struct {
	// At is when it was read, by our clock.
	At time.Time
	// Nodes holds consumption by what the system calls a node (a name, or an
	// address with or without a port), then by resource.
	Nodes map[string]map[string]float64
	// Pods holds consumption by namespace/name, then by resource.
	Pods map[string]map[string]float64
	// Dropped counts the samples that were not taken, by reason.
	Dropped map[string]int
	// Skew is how far the system's clock is ahead of ours.
	Skew time.Duration
}

// Reasons for which a sample is dropped.
const (
	DroppedNaN      = "nan"
	DroppedInfinite = "infinite"
	DroppedNegative = "negative"
	DroppedStale    = "stale"     // its last scrape is too long ago
	DroppedUnnamed  = "unnamed"   // it lacks the labels that name a pod or a node
	DroppedTwice    = "duplicate" // an object has it already
)

// DropReasons are all of them.
var DropReasons = []string{DroppedNaN, DroppedInfinite, DroppedNegative, DroppedStale, DroppedUnnamed, DroppedTwice}

func newUsage() *Usage {
	return &Usage{Nodes: map[string]map[string]float64{}, Pods: map[string]map[string]float64{}, Dropped: map[string]int{}}
}

// enter takes one value of name into objects, or counts why not.
func (u *Usage) enter(objects map[string]map[string]float64, name, resource string, v float64) {
	reason := unusable(v)
	if reason == "" && name == "" {
		reason = DroppedUnnamed
	}
	if _, taken := objects[name][resource]; reason == "" && taken {
		reason = DroppedTwice
	}
	if reason != "" {
		u.Dropped[reason]++
		return
	}
	if objects[name] == nil {
		objects[name] = map[string]float64{}
	}
	objects[name][resource] = v
}

// unusable says why v is no consumption; empty: it is one.
func unusable(v float64) string {
	switch {
	case math.IsNaN(v):
		return DroppedNaN
	case math.IsInf(v, 0):
		return DroppedInfinite
	case v < 0:
		return DroppedNegative
	}
	return ""
}

// SPDX-License-Identifier: Apache-2.0

package ipvs

import (
	"math"
)

// Auto lets Choose pick the scheduler.
const Auto = "auto"

// Auto's thresholds, in own connections in flight per pod, smoothed.
//
// A node sees only its own connections. Simulated with 8 pods of 4 to 16
// workers (TestAutoIsNearTheBetterScheduler), sed is better from about 0.5 in
// flight per pod up, under wrr, and at 95% load halves the p99 from 1 up; below
// 0.3 it herds. Herding makes queues, and queues look like work in flight: at
// 100 nodes and 95% load sed sees 0.76 where wrr would see 0.20. So sed is left
// early, at 0.8, where both are alike.
const (
	enterLeastConnection = 1.0
	leaveLeastConnection = 0.8
	inFlightMemory       = 0.3 // weight of the newest sample
)

// Choice is the scheduler of a service at this node, with what Choose has to
// remember. The zero value has seen nothing.
type Choice struct {
	Scheduler string  // kernel name
	InFlight  float64 // smoothed own connections in flight per pod
	sampled   bool
}

// Choose returns the scheduler for the next period. A named one is taken as it
// is; Auto takes sed where this node holds a large part of a pod's work and wrr
// where it holds little. inFlight is the present sample, NaN when unknown. UDP
// flows have no end that IPVS sees, so Auto is wrr for them.
func Choose(asked string, protocol Protocol, inFlight float64, last Choice) Choice {
	next := last
	if !math.IsNaN(inFlight) {
		if last.sampled {
			inFlight = inFlightMemory*inFlight + (1-inFlightMemory)*last.InFlight
		}
		next.InFlight, next.sampled = inFlight, true
	}
	switch {
	case asked != Auto:
		next.Scheduler = asked
	case protocol == UDP || !next.sampled:
		next.Scheduler = "wrr"
	case next.InFlight >= enterLeastConnection:
		next.Scheduler = "sed"
	case next.InFlight <= leaveLeastConnection || last.Scheduler != "sed":
		next.Scheduler = "wrr"
	}
	return next
}

// InFlight returns the active connections of s per destination that takes new
// ones, as Choose wants them; NaN without such a destination.
func InFlight(s Service) float64 {
	var active, pods float64
	for _, d := range s.Destinations {
		if d.Weight > 0 {
			active += float64(d.ActiveConns)
			pods++
		}
	}
	if pods == 0 {
		return math.NaN()
	}
	return active / pods
}

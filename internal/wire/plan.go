// SPDX-License-Identifier: Apache-2.0

package wire

import "time"

// Pulse tells agents that the optimizer lives: it is written every period, while
// splits and ratios are written only when they change.
type Pulse struct {
	Version int       `json:"version"`
	Epoch   int64     `json:"epoch"`
	Period  int64     `json:"period"`
	At      time.Time `json:"at"`
}

// Plan is the optimizer's last decisions and its own state: it reads it after a
// restart, weirctl shows it.
type Plan struct {
	Version int       `json:"version"`
	Epoch   int64     `json:"epoch"`
	Period  int64     `json:"period"`
	At      time.Time `json:"at"`
	// Seconds is the length of a period.
	Seconds float64 `json:"seconds"`
	// Degraded says in one line each what the optimizer lacks; empty when well.
	Degraded []string `json:"degraded,omitempty"`
	// Dispatch is the last dispatch decision.
	Dispatch *DispatchPlan `json:"dispatch,omitempty"`
}

// DispatchPlan sums up one dispatch decision.
type DispatchPlan struct {
	Status         string                     `json:"status"`
	Arrived        float64                    `json:"arrived"`
	Served         float64                    `json:"served"`
	Bound          float64                    `json:"bound"`
	MaxUtilisation float64                    `json:"maxUtilisation"`
	SolveMillis    float64                    `json:"solveMillis"`
	TaskCosts      map[string]map[string]Cost `json:"taskCosts,omitempty"`
	Why            []string                   `json:"why,omitempty"`
}

// Cost is what one task a period adds to a resource's consumption, and where
// the figure comes from: estimated, mean, declared or prior.
type Cost struct {
	Value  float64 `json:"value"`
	Source string  `json:"source"`
}

func (p *Pulse) validate() error {
	if err := checkVersion(p.Version); err != nil {
		return err
	}
	return checkStamp(p.Epoch, p.Period)
}

func (p *Plan) validate() error {
	if err := checkVersion(p.Version); err != nil {
		return err
	}
	if err := checkQuantity("seconds", p.Seconds); err != nil {
		return err
	}
	return checkStamp(p.Epoch, p.Period)
}

// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"fmt"
	"time"
)

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
	// Leader names the optimizer that wrote it.
	Leader string `json:"leader,omitempty"`
	// Frozen is set while nothing may change: no acts, no other splits. The
	// decisions below are then only what Weir would do.
	Frozen *Freeze `json:"frozen,omitempty"`
	// Degraded says in one line each what the optimizer lacks; empty when well.
	Degraded []string `json:"degraded,omitempty"`
	// Dispatch is the last dispatch decision.
	Dispatch *DispatchPlan `json:"dispatch,omitempty"`
	// Migration and Scaling are the last slice's.
	Migration *MigrationPlan `json:"migration,omitempty"`
	Scaling   *ScalingPlan   `json:"scaling,omitempty"`
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

// MigrationPlan sums up one migration decision. Before, After and Bound are
// imbalances; Seconds and Budget the time that moving takes and may take.
type MigrationPlan struct {
	At           time.Time `json:"at"`
	Status       string    `json:"status,omitempty"`
	Error        string    `json:"error,omitempty"` // why there is no decision
	Before       float64   `json:"before"`
	After        float64   `json:"after"`
	Bound        float64   `json:"bound"`
	Gap          float64   `json:"gap"`
	Left         float64   `json:"left"`
	WithinNodes  float64   `json:"withinNodes"`
	BetweenNodes float64   `json:"betweenNodes"`
	Seconds      float64   `json:"seconds"`
	Budget       float64   `json:"budget"`
	SolveMillis  float64   `json:"solveMillis"`
	// Count is the number of moves, of which Moves holds the first MaxMoves.
	Count int      `json:"count"`
	Moves []Move   `json:"moves,omitempty"`
	Why   []string `json:"why,omitempty"`
}

// Move takes one pod to another node.
type Move struct {
	Pod     string  `json:"pod"`
	From    string  `json:"from"`
	To      string  `json:"to"`
	Seconds float64 `json:"seconds"`
	// Mode says whether the move is only shown (observe) or carried out.
	Mode string `json:"mode,omitempty"`
}

// ScalingPlan sums up one scaling decision. Cost includes Penalty.
type ScalingPlan struct {
	At          time.Time `json:"at"`
	Status      string    `json:"status,omitempty"`
	Error       string    `json:"error,omitempty"` // why there is no decision
	Cost        float64   `json:"cost"`
	Penalty     float64   `json:"penalty"`
	Bound       float64   `json:"bound"`
	Gap         float64   `json:"gap"`
	SolveMillis float64   `json:"solveMillis"`
	// Count is the number of workloads, of which Replicas holds MaxReplicas:
	// first those that change or are short.
	Count    int        `json:"count"`
	Replicas []Replicas `json:"replicas,omitempty"`
	Why      []string   `json:"why,omitempty"`
}

// Replicas is the size of one workload, under the name of the service that
// asks most of it. Unmet is in tasks per slice.
type Replicas struct {
	Service  string         `json:"service"`
	Workload string         `json:"workload"`
	Current  int            `json:"current"`
	Total    int            `json:"total"`
	Unmet    float64        `json:"unmet,omitempty"`
	Short    int            `json:"short,omitempty"`
	Nodes    map[string]int `json:"nodes,omitempty"`
	Mode     string         `json:"mode,omitempty"`
}

// Bounds of a plan's lists: it is written every period.
const (
	MaxMoves    = 200
	MaxReplicas = 200
	MaxWhy      = 200
)

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
	if m := p.Migration; m != nil && (len(m.Moves) > MaxMoves || len(m.Why) > MaxWhy) {
		return fieldError("migration", len(m.Moves)+len(m.Why), fmt.Sprintf("at most %d moves and %d reasons", MaxMoves, MaxWhy))
	}
	if s := p.Scaling; s != nil && (len(s.Replicas) > MaxReplicas || len(s.Why) > MaxWhy) {
		return fieldError("scaling", len(s.Replicas)+len(s.Why), fmt.Sprintf("at most %d workloads and %d reasons", MaxReplicas, MaxWhy))
	}
	return checkStamp(p.Epoch, p.Period)
}

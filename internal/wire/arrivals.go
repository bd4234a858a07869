// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"fmt"
	"time"
)

// Arrivals is what one agent counted and measured over one interval. It is
// written by the agent of Node and read by the optimizer.
type Arrivals struct {
	Version int    `json:"version"`
	Node    string `json:"node"`
	// Agent is the version of the agent's build.
	Agent string `json:"agent"`
	// Counters identifies the counters behind every Total: totals of one
	// node can be compared only while it stays the same. It changes with
	// the boot and with the maps.
	Counters string `json:"counters"`
	// Boot is the kernel's boot id.
	Boot string `json:"boot"`
	// Attachment is how arrivals are counted: netfilter, tcx, clsact or none.
	Attachment string `json:"attachment"`
	// Period is the index of the period that ended: ⌊end/T⌋ on the wall clock.
	Period int64 `json:"period"`
	// Start and End bound the interval that Tasks and Usage cover. It is one
	// period long unless a push failed before.
	Start time.Time `json:"start"`
	End   time.Time `json:"end"`
	// Services holds the counts by service name.
	Services map[string]ServiceArrivals `json:"services"`
	// Usage is what the node and its pods consumed in the interval.
	Usage Usage `json:"usage"`
}

// ServiceArrivals counts one service's tasks at one node.
type ServiceArrivals struct {
	// Tasks arrived in the interval.
	Tasks uint64 `json:"tasks"`
	// Total arrived since the counters named by Arrivals.Counters were made.
	// A reader that missed messages takes differences of totals, so that no
	// count is lost or taken twice.
	Total uint64 `json:"total"`
	// Origins splits Tasks by where the clients sit: the top few by name,
	// the others under "rest".
	Origins map[string]uint64 `json:"origins,omitempty"`
	// Pods splits Tasks by the pod that IPVS gave them to.
	Pods map[string]float64 `json:"pods,omitempty"`
}

// Usage is what a node and its pods consumed, by resource.
type Usage struct {
	Node Reading            `json:"node"`
	Pods map[string]Reading `json:"pods,omitempty"`
}

// Reading holds means over an interval, by resource: cpu in cores, memory in
// bytes, network in bytes per second, other resources in their own unit.
// A resource that could not be measured is absent, not zero.
type Reading struct {
	Used     map[string]float64 `json:"used,omitempty"`
	Capacity map[string]float64 `json:"capacity,omitempty"`
}

func (a *Arrivals) validate() error {
	if err := checkVersion(a.Version); err != nil {
		return err
	}
	if err := checkName("node", a.Node); err != nil {
		return err
	}
	if a.Period < 0 {
		return fieldError("period", a.Period, "at least 0")
	}
	if !a.End.After(a.Start) {
		return fieldError("end", a.End.Format(time.RFC3339Nano), "after start")
	}
	for name, s := range a.Services {
		if err := s.validate("services", name); err != nil {
			return err
		}
	}
	if err := a.Usage.Node.validate("usage.node"); err != nil {
		return err
	}
	for name, r := range a.Usage.Pods {
		if err := checkName("usage.pods", name); err != nil {
			return err
		}
		if err := r.validate("usage.pods." + name); err != nil {
			return err
		}
	}
	return nil
}

func (s ServiceArrivals) validate(field, name string) error {
	if err := checkName(field, name); err != nil {
		return err
	}
	if s.Tasks > s.Total {
		return fieldError(fmt.Sprintf("%s.%s.tasks", field, name), s.Tasks, fmt.Sprintf("at most total, which is %d", s.Total))
	}
	for pod, v := range s.Pods {
		if err := checkQuantity(fmt.Sprintf("%s.%s.pods.%s", field, name, pod), v); err != nil {
			return err
		}
	}
	return nil
}

func (r Reading) validate(field string) error {
	for name, v := range r.Used {
		if err := checkQuantity(field+".used."+name, v); err != nil {
			return err
		}
	}
	for name, v := range r.Capacity {
		if err := checkQuantity(field+".capacity."+name, v); err != nil {
			return err
		}
	}
	return nil
}

// SPDX-License-Identifier: Apache-2.0

package wire

import "time"

// State is what the optimizer knows of the cluster, for people. It is written
// once a slice, and each period while someone looks.
type State struct {
	Version int       `json:"version"`
	Epoch   int64     `json:"epoch"`
	Period  int64     `json:"period"`
	At      time.Time `json:"at"`
	// Seconds and SliceSeconds are the lengths of a period and a slice.
	Seconds      float64        `json:"seconds"`
	SliceSeconds float64        `json:"sliceSeconds"`
	Services     []ServiceState `json:"services"`
	Nodes        []NodeState    `json:"nodes"`
	Pods         []PodState     `json:"pods"`
	// Problems are faults of objects that spoil nothing else.
	Problems []string `json:"problems,omitempty"`
}

// ServiceState is one service. Tasks are per period, SliceTasks and SLATasks (of
// one pod) per slice.
type ServiceState struct {
	Name          string             `json:"name"`
	Addresses     []string           `json:"addresses,omitempty"`
	Port          uint16             `json:"port"`
	Protocol      string             `json:"protocol"`
	Scheduler     string             `json:"scheduler"`
	Mode          string             `json:"mode"`
	MigrationMode string             `json:"migrationMode,omitempty"`
	ScalingMode   string             `json:"scalingMode,omitempty"`
	Workload      string             `json:"workload,omitempty"`
	FixedWhy      string             `json:"fixedWhy,omitempty"`
	Endpoints     int                `json:"endpoints"`
	Ready         int                `json:"ready"`
	Tasks         float64            `json:"tasks"`
	Served        float64            `json:"served"`
	SliceTasks    float64            `json:"sliceTasks"`
	SLATasks      float64            `json:"slaTasks,omitempty"`
	MinReplicas   int                `json:"minReplicas,omitempty"`
	MaxReplicas   int                `json:"maxReplicas,omitempty"`
	Arrivals      map[string]float64 `json:"arrivals,omitempty"` // by node
	Costs         map[string]Cost    `json:"costs,omitempty"`    // of one task a period
}

// NodeState is one node.
type NodeState struct {
	Name string `json:"name"`
	Zone string `json:"zone,omitempty"`
	// Ready is false where no new pod may go; Silent where the agent is.
	Ready     bool               `json:"ready"`
	Silent    bool               `json:"silent,omitempty"`
	Pods      int                `json:"pods"`
	Tasks     float64            `json:"tasks"` // that arrived in the last period
	Capacity  map[string]float64 `json:"capacity,omitempty"`
	Used      map[string]float64 `json:"used,omitempty"`
	Requested map[string]float64 `json:"requested,omitempty"`
}

// PodState is one pod of a managed service.
type PodState struct {
	Name     string `json:"name"`
	Node     string `json:"node"`
	Workload string `json:"workload,omitempty"`
	Ready    bool   `json:"ready"`
	Draining bool   `json:"draining,omitempty"`
	// PinnedWhy says why it may not move.
	PinnedWhy string `json:"pinnedWhy,omitempty"`
	// Shares is the pod's part of each service's tasks, all nodes together.
	Shares   map[string]float64 `json:"shares,omitempty"`
	Tasks    float64            `json:"tasks"` // that it served in a period
	Capacity map[string]float64 `json:"capacity,omitempty"`
	Used     map[string]float64 `json:"used,omitempty"`
	// Known says where Used comes from: measured, last, mean, declared or none.
	Known string `json:"known,omitempty"`
}

func (s *State) validate() error {
	if err := checkVersion(s.Version); err != nil {
		return err
	}
	if err := checkQuantity("seconds", s.Seconds); err != nil {
		return err
	}
	if err := checkQuantity("sliceSeconds", s.SliceSeconds); err != nil {
		return err
	}
	return checkStamp(s.Epoch, s.Period)
}

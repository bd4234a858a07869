// SPDX-License-Identifier: Apache-2.0

package model

import (
	"encoding/json"
	"time"
)

// Version is the newest snapshot version that this build reads.
const Version = 1

// NetworkResource names a node's network, which is no pod resource (design 3).
const NetworkResource = "network"

// Quantities are amounts by resource name: cpu in cores, memory in bytes, network in bytes per second.
type Quantities map[string]float64

// Duration is a time.Duration written as a Go string.
type Duration time.Duration

func (d Duration) String() string { return time.Duration(d).String() }

// MarshalJSON writes d as "5s".
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(d).String()) }

// Snapshot is all that the models know of a cluster at one moment (design 11). Build one with NewSnapshot or
// DecodeSnapshot: both carry the contract's defaults. The models never change it.
type Snapshot struct {
	Version   int               `json:"version"`
	Period    Duration          `json:"period"`
	Slice     Duration          `json:"slice"`
	Resources []string          `json:"resources"`
	Stock     []string          `json:"stock"` // resources that only limit: no utilisation level
	Nodes     []Node            `json:"nodes"`
	Services  []Service         `json:"services"`
	Pods      []Pod             `json:"pods"`
	Arrivals  []Arrival         `json:"arrivals"`
	Migration MigrationSettings `json:"migration"`
	Scaling   ScalingSettings   `json:"scaling"`
	Dispatch  DispatchSettings  `json:"dispatch"`
}

// Node is one node. A resource absent from Capacity is unlimited, one absent from Used is 0.
type Node struct {
	Name          string     `json:"name"`
	Zone          string     `json:"zone,omitempty"`
	Ready         bool       `json:"ready"` // true where absent
	Capacity      Quantities `json:"capacity,omitempty"`
	Used          Quantities `json:"used,omitempty"`
	Allocatable   Quantities `json:"allocatable,omitzero"` // nil: unchecked
	Requested     Quantities `json:"requested,omitzero"`
	Images        []string   `json:"images,omitempty"`
	PullBandwidth float64    `json:"pullBandwidth"`    // bytes per second
	Weights       Quantities `json:"weights,omitzero"` // of resources in the node's load; nil: equal
}

// Service is one service port.
type Service struct {
	Name           string     `json:"name"`
	Workload       string     `json:"workload"`                 // its own name where absent
	TaskCost       Quantities `json:"taskCost,omitzero"`        // what one task a period adds; nil: estimated
	SLATasksPerPod float64    `json:"slaTasksPerPod,omitempty"` // per slice; 0: not scaled
	EnergyCost     float64    `json:"energyCost"`
	DeployCost     float64    `json:"deployCost"`
	MinReplicas    int        `json:"minReplicas"`
	MaxReplicas    int        `json:"maxReplicas,omitempty"` // 0: no maximum
	PodRequest     Quantities `json:"podRequest,omitzero"`
}

// Pod is one endpoint, which may serve several services.
type Pod struct {
	Name       string     `json:"name"`
	Workload   string     `json:"workload"` // its own name where absent
	Services   []string   `json:"services"`
	Node       string     `json:"node"`
	Ready      bool       `json:"ready"` // true where absent
	Draining   bool       `json:"draining"`
	Capacity   Quantities `json:"capacity,omitempty"`
	Used       Quantities `json:"used,omitempty"`
	Request    Quantities `json:"request,omitempty"`
	Tasks      Quantities `json:"tasks,omitempty"` // served in the last period, by service
	Image      string     `json:"image,omitempty"`
	ImageBytes float64    `json:"imageBytes,omitempty"`
	Movable    bool       `json:"movable"`          // true where absent
	Targets    []string   `json:"targets,omitzero"` // nil: all other ready nodes; a node that has left is no target
}

// Arrival is the demand of one service at one counting node, in tasks per period.
type Arrival struct {
	Service    string   `json:"service"`
	Node       string   `json:"node"`
	Tasks      float64  `json:"tasks"`         // the forecast λ
	Last       float64  `json:"last"`          // of the last period; Tasks where absent
	SliceTasks float64  `json:"sliceTasks"`    // over the next slice; Tasks · slice/period where absent
	Pods       []string `json:"pods,omitzero"` // nil: every pod of the service
}

// MigrationSettings holds the settings of the migration model (design 4).
type MigrationSettings struct {
	MaxTimeShare  float64  `json:"maxTimeShare"`
	MaxMoves      int      `json:"maxMoves"` // 0: no cap
	MinGain       float64  `json:"minGain"`
	MoveCost      float64  `json:"moveCost"`
	MoveOverhead  Duration `json:"moveOverhead"`
	ClusterWeight float64  `json:"clusterWeight"`
	TimeLimit     Duration `json:"timeLimit"`
	Seed          int      `json:"seed"`
}

// ScalingSettings holds the settings of the scaling model (design 5).
type ScalingSettings struct {
	EnergyWeight float64  `json:"energyWeight"`
	DeployWeight float64  `json:"deployWeight"`
	UnmetPenalty float64  `json:"unmetPenalty"`
	TimeLimit    Duration `json:"timeLimit"`
}

// Stage is one stage of dispatch.
type Stage string

// The stages, in their order; each needs the one before it.
const (
	StageThroughput Stage = "throughput"
	StageBalance    Stage = "balance"
	StageLocality   Stage = "locality"
)

// Shortage says what a shortage maximises.
type Shortage string

// The shortage policies.
const (
	ShortageThroughput Shortage = "throughput"
	ShortageMaxMin     Shortage = "maxmin"
)

// DispatchSettings holds the settings of the dispatch model (design 3).
type DispatchSettings struct {
	Stages         []Stage  `json:"stages"`
	Headroom       float64  `json:"headroom"`
	MaxUtilisation float64  `json:"maxUtilisation"`
	Shortage       Shortage `json:"shortage"`
	Tiers          Tiers    `json:"tiers"`
}

// Tiers are the costs of serving a task on its own node, in its zone, and elsewhere; they never fall.
type Tiers struct {
	Node float64 `json:"node"`
	Zone float64 `json:"zone"`
	Else float64 `json:"else"`
}

// NewSnapshot is an empty snapshot with the contract's defaults.
func NewSnapshot() *Snapshot {
	return &Snapshot{
		Version:   Version,
		Period:    Duration(5 * time.Second),
		Slice:     Duration(time.Minute),
		Resources: []string{"cpu", "memory"},
		Stock:     []string{"memory"},
		Migration: MigrationSettings{MaxTimeShare: 0.1, ClusterWeight: 1, TimeLimit: Duration(2 * time.Second), Seed: 1},
		Scaling: ScalingSettings{EnergyWeight: 1, DeployWeight: 1, UnmetPenalty: 1000,
			TimeLimit: Duration(2 * time.Second)},
		Dispatch: DispatchSettings{Stages: []Stage{StageThroughput, StageBalance, StageLocality}, Headroom: 0.7,
			MaxUtilisation: 1, Shortage: ShortageThroughput, Tiers: Tiers{Node: 0, Zone: 1, Else: 4}},
	}
}

// newNode, newService and newPod carry the defaults of what a document leaves out.
func newNode() Node       { return Node{Ready: true, PullBandwidth: 12.5e6} }
func newService() Service { return Service{EnergyCost: 1, DeployCost: 1, MinReplicas: 1} }
func newPod() Pod         { return Pod{Ready: true, Movable: true} }

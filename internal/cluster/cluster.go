// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"fmt"
	"net/netip"
	"time"
)

// Cluster is one cluster as declared.
type Cluster struct {
	Version int `yaml:"version"`
	// Name is the cluster's name in Redis keys.
	Name     string    `yaml:"name"`
	Nodes    []Node    `yaml:"nodes"`
	Services []Service `yaml:"services"`
	Pods     []Pod     `yaml:"pods"`
	// Problems are what was declared wrongly and left out or replaced by its
	// default. A file has none: it is taken whole or not at all.
	Problems []Problem `yaml:"-"`
}

// Node is a machine whose kernel makes balancing decisions.
type Node struct {
	Name string `yaml:"name"`
	Zone string `yaml:"zone"`
	// Addresses are the node's own.
	Addresses []netip.Addr `yaml:"addresses"`
	// PodCIDRs hold the addresses of the node's pods. A client outside every
	// node's is external: its traffic is masqueraded.
	PodCIDRs []netip.Prefix `yaml:"podCIDRs"`
	// Capacity by resource: cpu in cores, memory in bytes, network in bytes
	// per second. What is absent is measured by the node's agent.
	Capacity map[string]float64 `yaml:"capacity"`
	// Unready nodes get no new pods: they are not ready, or cordoned.
	Unready bool `yaml:"unready"`
	// Allocatable is what pods may request in all, Requested what the node's
	// pods request now; nil: requests are not checked.
	Allocatable map[string]float64 `yaml:"allocatable"`
	Requested   map[string]float64 `yaml:"requested"`
	// Images are the container images that the node holds.
	Images []string `yaml:"images"`
	// PullBandwidth is how fast the node pulls an image, in bytes per second;
	// 0: unknown.
	PullBandwidth float64 `yaml:"pullBandwidth"`
	// Weights are the resources' parts in the node's load; nil: equal.
	Weights map[string]float64 `yaml:"weights"`
}

// Service is one port of a service, at one or more virtual addresses.
type Service struct {
	// Name is unique: namespace/name:port.
	Name      string       `yaml:"name"`
	Addresses []netip.Addr `yaml:"addresses"`
	Port      uint16       `yaml:"port"`
	Protocol  Protocol     `yaml:"protocol"`
	// Scheduler is one of Schedulers; empty is auto.
	Scheduler string `yaml:"scheduler"`
	// Mode says whether the optimizer's ratios are obeyed (enforce, the
	// default), only computed (observe) or not computed (off). In the last
	// two every pod has the same weight.
	Mode Mode `yaml:"mode"`
	// Costs is what one task takes of a resource, where the operator knows
	// it: core-seconds, bytes, worker-seconds. Else it is estimated.
	Costs     map[string]float64 `yaml:"costs"`
	Endpoints []Endpoint         `yaml:"endpoints"`
	// Workload is what is scaled, as namespace/Kind/name; empty: the service
	// is not scaled.
	Workload string `yaml:"workload"`
	// SLA is how many tasks per second one pod can serve as promised; 0: the
	// service is not scaled. The models count by slice: see SLATasks.
	SLA float64 `yaml:"sla"`
	// EnergyCost and DeployCost are the costs of a pod and of a new pod; 1
	// where absent, and never nil in a cluster that was read.
	EnergyCost *float64 `yaml:"energyCost"`
	DeployCost *float64 `yaml:"deployCost"`
	// MinReplicas is at least 1; MaxReplicas 0 is no maximum.
	MinReplicas int `yaml:"minReplicas"`
	MaxReplicas int `yaml:"maxReplicas"`
	// PodRequest is what a new pod requests.
	PodRequest map[string]float64 `yaml:"podRequest"`
	// MigrationMode and ScalingMode say how far these models go for the
	// service's pods; observe is the default.
	MigrationMode Mode `yaml:"migrationMode"`
	ScalingMode   Mode `yaml:"scalingMode"`
	// FixedWhy says why the number of replicas is not Weir's to change (another
	// scaler does); empty: it may.
	FixedWhy string `yaml:"fixedWhy"`
	// TrafficPolicyLocal keeps tasks at the node where they arrive.
	TrafficPolicyLocal bool `yaml:"trafficPolicyLocal"`
}

// Endpoint is a pod's port that serves a service.
type Endpoint struct {
	Pod  string `yaml:"pod"`
	Port uint16 `yaml:"port"`
	// Terminating endpoints finish what they have and get nothing new.
	Terminating bool `yaml:"terminating"`
}

// Pod is a running instance.
type Pod struct {
	Name string `yaml:"name"`
	Node string `yaml:"node"`
	// Addresses holds at most one address of each family.
	Addresses []netip.Addr `yaml:"addresses"`
	// Capacity by resource; what is absent and can be measured is measured.
	Capacity map[string]float64 `yaml:"capacity"`
	// Cgroup is the pod's cgroup v2 folder, where it has one.
	Cgroup string `yaml:"cgroup"`
	// Metrics is the URL at which the pod tells the resources that only it
	// knows, as weir_usage_seconds_total and weir_capacity.
	Metrics string `yaml:"metrics"`
	// UID is the pod's identity, Owner that of its controller (a ReplicaSet or
	// a StatefulSet). Workload is what scales it, as namespace/Kind/name.
	UID      string `yaml:"uid"`
	Owner    string `yaml:"owner"`
	Workload string `yaml:"workload"`
	// Unready pods serve nothing now. Draining pods finish what they have.
	Unready  bool `yaml:"unready"`
	Draining bool `yaml:"draining"`
	// PinnedWhy says why the pod must stay at its node; empty: it may move.
	PinnedWhy string `yaml:"pinnedWhy"`
	// Targets are the nodes that it may move to; nil: all.
	Targets []string `yaml:"targets"`
	// Request is what it asks of its node.
	Request map[string]float64 `yaml:"request"`
	// Image is its largest image, ImageBytes what a node that lacks the image
	// has to hold of it; 0: unknown.
	Image      string  `yaml:"image"`
	ImageBytes float64 `yaml:"imageBytes"`
}

// Problem is a fault of one object of the cluster that spoils nothing else.
type Problem struct {
	// Object is Kind/name, or Kind/namespace/name.
	Object string
	// Field is what is wrong: an annotation or a field of the object.
	Field          string
	Value, Allowed string
}

func (p Problem) String() string {
	return fmt.Sprintf("%s: %s: %q: %s", p.Object, p.Field, p.Value, p.Allowed)
}

// Protocol is a transport protocol: TCP, UDP or SCTP.
type Protocol string

// The protocols.
const (
	TCP  Protocol = "TCP"
	UDP  Protocol = "UDP"
	SCTP Protocol = "SCTP"
)

// Number returns the protocol's IANA number.
func (p Protocol) Number() uint8 {
	switch p {
	case UDP:
		return 17
	case SCTP:
		return 132
	default:
		return 6
	}
}

// Mode is how far a model's decisions go.
type Mode string

// The modes.
const (
	Off     Mode = "off"
	Observe Mode = "observe"
	Enforce Mode = "enforce"
)

// Modes are all of them.
var Modes = []Mode{Off, Observe, Enforce}

// Schedulers are the IPVS schedulers that a service may ask for. auto chooses
// sed or wrr by the traffic that the node sees.
var Schedulers = []string{"auto", "wrr", "wlc", "sed", "mh", "rr", "lc"}

// Node returns the node of that name.
func (c *Cluster) Node(name string) (Node, bool) {
	for _, n := range c.Nodes {
		if n.Name == name {
			return n, true
		}
	}
	return Node{}, false
}

// PodsByName returns the pods by their names.
func (c *Cluster) PodsByName() map[string]Pod {
	pods := make(map[string]Pod, len(c.Pods))
	for _, p := range c.Pods {
		pods[p.Name] = p
	}
	return pods
}

// SetDefaults fills in what s leaves out.
func (s *Service) SetDefaults() {
	s.Protocol = cmp.Or(s.Protocol, TCP)
	s.Scheduler = cmp.Or(s.Scheduler, "auto")
	s.Mode = cmp.Or(s.Mode, Enforce)
	s.MigrationMode = cmp.Or(s.MigrationMode, Observe)
	s.ScalingMode = cmp.Or(s.ScalingMode, Observe)
	s.MinReplicas = cmp.Or(s.MinReplicas, 1)
	one := 1.0
	s.EnergyCost = cmp.Or(s.EnergyCost, &one)
	s.DeployCost = cmp.Or(s.DeployCost, &one)
}

// TaskCosts returns what one task a period of length period adds to a
// resource's consumption: the declared cost divided by the period.
func (s Service) TaskCosts(period time.Duration) map[string]float64 {
	if len(s.Costs) == 0 {
		return nil
	}
	costs := make(map[string]float64, len(s.Costs))
	for resource, v := range s.Costs {
		costs[resource] = v / period.Seconds()
	}
	return costs
}

// SLATasks returns how many tasks one pod can serve in a slice; 0: unknown.
func (s Service) SLATasks(slice time.Duration) float64 { return s.SLA * slice.Seconds() }

// Address returns the pod's address of the same family as like.
func (p Pod) Address(like netip.Addr) (netip.Addr, bool) {
	for _, a := range p.Addresses {
		if a.Is4() == like.Is4() {
			return a, true
		}
	}
	return netip.Addr{}, false
}

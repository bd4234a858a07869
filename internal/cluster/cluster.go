// SPDX-License-Identifier: Apache-2.0

package cluster

import (
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

// Address returns the pod's address of the same family as like.
func (p Pod) Address(like netip.Addr) (netip.Addr, bool) {
	for _, a := range p.Addresses {
		if a.Is4() == like.Is4() {
			return a, true
		}
	}
	return netip.Addr{}, false
}

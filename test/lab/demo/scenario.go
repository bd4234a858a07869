// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/edgeweir/weir/internal/cluster"
	"github.com/edgeweir/weir/test/lab/load"
	"github.com/edgeweir/weir/test/lab/pod"
	"github.com/edgeweir/weir/test/lab/topology"
)

// Scenario is a cluster and the load on it.
type Scenario struct {
	Nodes    []string
	Zones    []string // of the nodes
	Services []Service
	// Load is the part of all pods' capacity that is asked for.
	Load float64
	// Service is the mean time that a task occupies a worker, Shape that of its
	// Erlang distribution.
	Service time.Duration
	Shape   int
	Period  time.Duration
	// Warm is the beginning of each phase that is not measured; Steady is the
	// measured rest of the longest.
	Warm, Steady time.Duration
	// Timeout is how long a client waits.
	Timeout time.Duration
	Seed    uint64
}

// Service is one service of the scenario.
type Service struct {
	Name    string
	Address netip.Addr
	Pods    []Pod
	// Nodes is how the service's demand is spread over the nodes; it sums to 1.
	Nodes []float64
}

// Pod is one pod with its number of workers.
type Pod struct {
	Name    string
	Node    int
	Workers int
}

// Default is the scenario of the demo: three nodes, two services of four pods
// whose capacities differ by 4:1, demand uneven over the nodes.
func Default() Scenario {
	return Scenario{
		Nodes: []string{"edge-1", "edge-2", "edge-3"}, Zones: []string{"a", "a", "b"},
		Services: []Service{
			{
				Name: "shop/web:http", Address: netip.MustParseAddr("10.96.0.10"), Nodes: []float64{0.45, 0.33, 0.22},
				Pods: []Pod{{"shop/web-a", 0, 16}, {"shop/web-b", 1, 8}, {"shop/web-c", 1, 8}, {"shop/web-d", 2, 4}},
			},
			{
				Name: "shop/api:grpc", Address: netip.MustParseAddr("10.96.0.11"), Nodes: []float64{0.22, 0.33, 0.45},
				Pods: []Pod{{"shop/api-a", 0, 4}, {"shop/api-b", 0, 8}, {"shop/api-c", 2, 8}, {"shop/api-d", 2, 16}},
			},
		},
		Load: 0.7, Service: 1250 * time.Millisecond, Shape: 8, Period: 4 * time.Second,
		Warm: 16 * time.Second, Steady: 86 * time.Second, Timeout: 20 * time.Second, Seed: 1,
	}
}

// Short returns s cut down to what shows that the loop closes: at half the load, so
// that a busy machine under the emulated one does not matter.
func (s Scenario) Short() Scenario {
	s.Load /= 2
	s.Warm, s.Steady, s.Timeout = 8*time.Second, 12*time.Second, 15*time.Second
	s.Period = 2 * time.Second
	return s
}

// servicePort is where services are reached, podPort where their pods serve.
const servicePort, podPort, metricsPort = 80, 8080, 9102

// rate returns a service's arrivals per second over all nodes.
func (s Scenario) rate(l Service) float64 {
	workers := 0
	for _, p := range l.Pods {
		workers += p.Workers
	}
	return s.Load * float64(workers) / s.Service.Seconds()
}

// lab returns the topology that the scenario needs.
func (s Scenario) lab() topology.Config {
	c := topology.Config{Nodes: s.Nodes}
	for _, l := range s.Services {
		for _, p := range l.Pods {
			c.Pods = append(c.Pods, topology.PodSpec{Name: p.Name, Node: s.Nodes[p.Node]})
		}
	}
	return c
}

// plan returns one phase's load; every phase has the same arrivals for as long as
// it lasts.
func (s Scenario) plan(v variant, nodes []topology.Node, firstPort uint16) load.Plan {
	p := load.Plan{
		Seed: s.Seed, Duration: load.Duration(s.Warm + s.steady(v)), Timeout: load.Duration(s.Timeout),
		MaxConnections: 100_000, MaxConcurrent: 8000, FirstPort: firstPort,
	}
	for _, l := range s.Services {
		for i, n := range nodes {
			p.Streams = append(p.Streams, load.Stream{
				Service: l.Name, Node: n.Name, Source: n.ClientSource4,
				Target: netip.AddrPortFrom(l.Address, servicePort), Rate: s.rate(l) * l.Nodes[i],
			})
		}
	}
	return p
}

// cluster returns the cluster file of one phase.
func (s Scenario) cluster(t *topology.Layout, v variant) *cluster.Cluster {
	c := &cluster.Cluster{Version: 1, Name: "demo"}
	for i, n := range t.Nodes {
		c.Nodes = append(c.Nodes, cluster.Node{
			Name: n.Name, Zone: s.Zones[i], Addresses: []netip.Addr{n.IPv4}, PodCIDRs: []netip.Prefix{n.PodCIDR4},
		})
	}
	for _, p := range t.Pods {
		c.Pods = append(c.Pods, cluster.Pod{
			Name: p.Name, Node: p.Node, Addresses: []netip.Addr{p.IPv4},
			Metrics: fmt.Sprintf("http://%s/metrics", netip.AddrPortFrom(p.IPv4, metricsPort)),
		})
	}
	for _, l := range s.Services {
		service := cluster.Service{
			Name: l.Name, Addresses: []netip.Addr{l.Address}, Port: servicePort, Protocol: cluster.TCP,
			Scheduler: v.scheduler, Mode: v.mode,
		}
		for _, p := range l.Pods {
			service.Endpoints = append(service.Endpoints, cluster.Endpoint{Pod: p.Name, Port: podPort})
		}
		c.Services = append(c.Services, service)
	}
	return c
}

// writeCluster puts the cluster file in place in one step.
func writeCluster(path string, c *cluster.Cluster) error {
	data, err := yaml.Marshal(c)
	if err != nil {
		return fmt.Errorf("write cluster file: %w", err)
	}
	if _, err := cluster.Parse(filepath.Base(path), data); err != nil {
		return err
	}
	if err := os.WriteFile(path+".new", data, 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// variant is how the services are balanced in a phase.
type variant struct {
	key       string // in report.json
	title     string
	scheduler string
	mode      cluster.Mode
	part      float64 // of Scenario.Steady that it is measured for
}

// variants are the phases, in their order.
var variants = []variant{
	{"rr", "plain IPVS rr", "rr", cluster.Observe, 0.35},
	{"weir", "Weir, scheduler auto", "auto", cluster.Enforce, 0.55},
	{"weirWrr", "Weir, scheduler wrr", "wrr", cluster.Enforce, 1},
}

// steady returns how long a phase is measured.
func (s Scenario) steady(v variant) time.Duration {
	return time.Duration(v.part * float64(s.Steady)).Round(time.Second)
}

// weir says whether Weir's ratios are in force.
func (v variant) weir() bool { return v.mode == cluster.Enforce }

// resource is what the pods' capacities are of.
const resource = pod.Resource

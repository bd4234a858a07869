// SPDX-License-Identifier: Apache-2.0

package nodeagent

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/edgeweir/weir/internal/cluster"
	"github.com/edgeweir/weir/nodeagent/arrivals"
	"github.com/edgeweir/weir/nodeagent/host"
	"github.com/edgeweir/weir/nodeagent/ipvs"
	"github.com/edgeweir/weir/nodeagent/usage"
)

// desired is what one node's kernel should hold of a cluster. It is computed
// once per change of the cluster and not changed after.
type desired struct {
	node     cluster.Node
	services []service
	origins  []arrivals.Origin
	pods     []usage.Pod // of this node
	podCIDRs []netip.Prefix
}

// service is one service with its virtual servers.
type service struct {
	cluster.Service
	// ready are the pods that take new tasks, sorted; terminating ones are not.
	ready   []string
	servers []server
}

// server is one virtual server: the service at one of its addresses.
type server struct {
	key  ipvs.Key
	pods map[netip.AddrPort]string // endpoints, terminating ones included
}

// newDesired returns what node's kernel should hold of c.
func newDesired(c *cluster.Cluster, node string) (*desired, error) {
	own, ok := c.Node(node)
	if !ok {
		return nil, fmt.Errorf("nodes: %q: this node is not in the cluster file", node)
	}
	d := &desired{node: own}
	for _, n := range c.Nodes {
		d.podCIDRs = append(d.podCIDRs, n.PodCIDRs...)
		d.origins = append(d.origins, originsOf(n)...)
	}
	pods := c.PodsByName()
	for _, s := range c.Services {
		d.services = append(d.services, newService(s, pods))
	}
	for _, p := range c.Pods {
		if p.Node == node {
			d.pods = append(d.pods, usage.Pod{Name: p.Name, Cgroup: p.Cgroup, Metrics: p.Metrics})
		}
	}
	return d, nil
}

// originsOf says where clients of node n have their addresses.
func originsOf(n cluster.Node) []arrivals.Origin {
	var origins []arrivals.Origin
	for _, p := range n.PodCIDRs {
		origins = append(origins, arrivals.Origin{Prefix: p, Name: n.Name})
	}
	for _, a := range n.Addresses {
		origins = append(origins, arrivals.Origin{Prefix: netip.PrefixFrom(a, a.BitLen()), Name: n.Name})
	}
	return origins
}

func newService(s cluster.Service, pods map[string]cluster.Pod) service {
	l := service{Service: s}
	for _, e := range s.Endpoints {
		if !e.Terminating {
			l.ready = append(l.ready, e.Pod)
		}
	}
	slices.Sort(l.ready)
	for _, a := range s.Addresses {
		v := server{key: ipvs.Key{Address: a, Port: s.Port, Protocol: ipvs.Protocol(s.Protocol.Number())}, pods: map[netip.AddrPort]string{}}
		for _, e := range s.Endpoints {
			if address, ok := pods[e.Pod].Address(a); ok {
				v.pods[netip.AddrPortFrom(address, e.Port)] = e.Pod
			}
		}
		l.servers = append(l.servers, v)
	}
	return l
}

// host returns what the node has to be ready for: the wanted virtual servers and
// those that are leaving.
func (d *desired) host(leaving []ipvs.Key) host.Desired {
	h := host.Desired{Services: append(d.keys(), leaving...), PodCIDRs: d.podCIDRs}
	for _, l := range d.services {
		for _, v := range l.servers {
			for endpoint := range v.pods {
				h.Endpoints = append(h.Endpoints, endpoint.Addr())
			}
		}
	}
	return h
}

// conflict returns an error that names the first service whose address can't be
// this node's.
func (d *desired) conflict(h *host.Host) error {
	conflicts, err := h.Conflicts(d.host(nil))
	if err != nil {
		return err
	}
	for _, c := range conflicts {
		for _, l := range d.services {
			if slices.Contains(l.Addresses, c.Address) {
				return fmt.Errorf("services: %s: addresses: %w", l.Name, host.Conflicts{c})
			}
		}
	}
	return nil
}

// tracked returns the services as the counter knows them.
func (d *desired) tracked() []arrivals.Service {
	tracked := make([]arrivals.Service, len(d.services))
	for i, l := range d.services {
		tracked[i].Name = l.Name
		for _, v := range l.servers {
			tracked[i].Addresses = append(tracked[i].Addresses,
				arrivals.Address{IP: v.key.Address, Port: v.key.Port, Protocol: uint8(v.key.Protocol)})
		}
	}
	return tracked
}

// names returns the names of the services.
func (d *desired) names() []string {
	names := make([]string, len(d.services))
	for i, l := range d.services {
		names[i] = l.Name
	}
	return names
}

// keys returns the virtual servers.
func (d *desired) keys() []ipvs.Key {
	var keys []ipvs.Key
	for _, l := range d.services {
		for _, v := range l.servers {
			keys = append(keys, v.key)
		}
	}
	return keys
}

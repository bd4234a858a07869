// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"net/netip"
	"regexp"
	"strings"
)

// Config says what cluster to lay out.
type Config struct {
	// Prefix begins the name of every network namespace, cgroup and folder of
	// the lab, so that two labs, and what is not a lab's, stay apart. Empty is
	// DefaultPrefix.
	Prefix string
	Nodes  []string // 1 to 250 names
	Pods   []PodSpec
}

// DefaultPrefix begins the names of a lab that names none.
const DefaultPrefix = "weir-"

// PodSpec names a pod and the node that it runs on. At most 240 to a node.
type PodSpec struct {
	Name string // namespace/name or name
	Node string
	CPU  float64 // cores; 0 is unlimited. Needs the CPU controller of cgroup v2
}

// Layout holds every name and address of a lab; it is computed, nothing is made.
//
// The fabric is one switch, 10.100.0.0/16 and fd00:10:100::/64. Node number N is
// 10.100.0.N there and owns the pod range 10.244.N.0/24. The external client
// sends from 10.9.0.N what is to go through node N.
type Layout struct {
	Prefix  string
	Bridge  string // network namespace of the switch
	Control Host   // Redis and optimizer
	Client  Host   // the external client
	Nodes   []Node // in the order of Config.Nodes
	Pods    []Pod  // in the order of Config.Pods
}

// Host is a machine on the fabric.
type Host struct {
	Namespace  string // its network namespace, as `ip netns` shows it
	IPv4, IPv6 netip.Addr
}

// Node is a cluster node.
type Node struct {
	Host
	Name           string
	Number         int // 1, 2, …
	PodCIDR4       netip.Prefix
	PodCIDR6       netip.Prefix
	ClientSource4  netip.Addr // the client's address whose traffic goes through this node
	ClientSource6  netip.Addr
	clientTable    int // routing table of the client for these sources
	gateway4       netip.Addr
	lastPodOrdinal int
}

// Pod is a pod behind a node.
type Pod struct {
	Name, Node string
	Namespace  string // its network namespace
	IPv4, IPv6 netip.Addr
	Device     string // the node's end of its veth
	CPU        float64
}

const (
	maxNodes      = 250
	maxPodsOnNode = 240
	firstPod      = 10 // host part of a node's first pod
)

// plainName is what names, which become names of files, are made of.
var plainName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]*$`)

var (
	clientSources4 = netip.MustParsePrefix("10.9.0.0/24")
	clientSources6 = netip.MustParsePrefix("fd00:10:9::/64")
	fabricBits4    = 16
	fabricBits6    = 64
	// gateway6 is the address of every node towards each of its pods.
	gateway6 = netip.MustParseAddr("fe80::1")
)

// Lay computes the layout of a lab.
func Lay(cfg Config) (*Layout, error) {
	prefix := cfg.Prefix
	if prefix == "" {
		prefix = DefaultPrefix
	}
	if !plainName.MatchString(prefix) {
		return nil, fmt.Errorf("topology: %q can't be a lab's prefix", prefix)
	}
	if len(cfg.Nodes) == 0 || len(cfg.Nodes) > maxNodes {
		return nil, fmt.Errorf("topology: %d nodes, want 1 to %d", len(cfg.Nodes), maxNodes)
	}
	l := &Layout{
		Prefix:  prefix,
		Bridge:  prefix + "bridge",
		Control: Host{prefix + "control", netip.MustParseAddr("10.100.1.1"), netip.MustParseAddr("fd00:10:100::1:1")},
		Client:  Host{prefix + "client", netip.MustParseAddr("10.100.1.2"), netip.MustParseAddr("fd00:10:100::1:2")},
	}
	names := map[string]bool{l.Bridge: true, l.Control.Namespace: true, l.Client.Namespace: true}
	for i, name := range cfg.Nodes {
		if !plainName.MatchString(name) {
			return nil, fmt.Errorf("topology: %q can't be a node's name", name)
		}
		node := layNode(prefix, name, i+1)
		if names[node.Namespace] {
			return nil, fmt.Errorf("topology: node %q: namespace %s is taken", name, node.Namespace)
		}
		names[node.Namespace] = true
		l.Nodes = append(l.Nodes, node)
	}
	for _, spec := range cfg.Pods {
		if !plainName.MatchString(strings.Replace(spec.Name, "/", "-", 1)) {
			return nil, fmt.Errorf("topology: %q can't be a pod's name", spec.Name)
		}
		node := l.node(spec.Node)
		if node == nil {
			return nil, fmt.Errorf("topology: pod %q: unknown node %q", spec.Name, spec.Node)
		}
		if node.lastPodOrdinal == maxPodsOnNode {
			return nil, fmt.Errorf("topology: pod %q: node %s has %d pods already", spec.Name, spec.Node, maxPodsOnNode)
		}
		pod := layPod(prefix, spec, node)
		if names[pod.Namespace] {
			return nil, fmt.Errorf("topology: pod %q: namespace %s is taken", spec.Name, pod.Namespace)
		}
		names[pod.Namespace] = true
		l.Pods = append(l.Pods, pod)
	}
	return l, nil
}

func layNode(prefix, name string, n int) Node {
	// Decimal digits in IPv6 addresses too: what is read is what is meant.
	addr := func(format string) netip.Addr { return netip.MustParseAddr(fmt.Sprintf(format, n)) }
	return Node{
		Host:          Host{prefix + name, addr("10.100.0.%d"), addr("fd00:10:100::%d")},
		Name:          name,
		Number:        n,
		PodCIDR4:      netip.PrefixFrom(addr("10.244.%d.0"), 24),
		PodCIDR6:      netip.PrefixFrom(addr("fd00:10:244:%d::"), 64),
		ClientSource4: addr("10.9.0.%d"),
		ClientSource6: addr("fd00:10:9::%d"),
		clientTable:   1000 + n,
		gateway4:      addr("10.244.%d.1"),
	}
}

func layPod(prefix string, spec PodSpec, node *Node) Pod {
	host := firstPod + node.lastPodOrdinal
	node.lastPodOrdinal++
	return Pod{
		Name:      spec.Name,
		Node:      node.Name,
		CPU:       spec.CPU,
		Namespace: prefix + "pod-" + strings.ReplaceAll(spec.Name, "/", "-"),
		IPv4:      netip.MustParseAddr(fmt.Sprintf("10.244.%d.%d", node.Number, host)),
		IPv6:      netip.MustParseAddr(fmt.Sprintf("fd00:10:244:%d::%d", node.Number, host)),
		Device:    fmt.Sprintf("pod%d", host),
	}
}

// node returns the node of that name, nil if there is none.
func (l *Layout) node(name string) *Node {
	for i := range l.Nodes {
		if l.Nodes[i].Name == name {
			return &l.Nodes[i]
		}
	}
	return nil
}

// namespaces returns the names of all network namespaces of the lab.
func (l *Layout) namespaces() []string {
	names := []string{l.Bridge, l.Control.Namespace, l.Client.Namespace}
	for _, n := range l.Nodes {
		names = append(names, n.Namespace)
	}
	for _, p := range l.Pods {
		names = append(names, p.Namespace)
	}
	return names
}

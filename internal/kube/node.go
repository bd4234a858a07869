// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/edgeweir/weir/internal/cluster"
)

// nodeState is a node, and what the pods on it add up to.
type nodeState struct {
	cluster.Node
	object    *corev1.Node       // nil: known only by its name
	requested map[string]float64 // by all pods that have not ended
	unlimited map[string]float64 // pods without a limit, by resource
}

func (b *builder) readNodes() {
	for _, n := range b.Nodes {
		b.nodes[n.Name] = &nodeState{
			Node: newNode(n, b.problem("Node/"+n.Name)), object: n,
			requested: map[string]float64{}, unlimited: map[string]float64{},
		}
	}
}

func newNode(n *corev1.Node, problem func(field, value, allowed string)) cluster.Node {
	d := declared("Node", n.Annotations, problem)
	out := cluster.Node{
		Name: n.Name, Zone: n.Labels[corev1.LabelTopologyZone], Unready: !nodeReady(n),
		Capacity:    amounts(n.Status.Capacity, corev1.ResourceCPU, corev1.ResourceMemory),
		Allocatable: amounts(n.Status.Allocatable), PullBandwidth: d.node.PullBandwidth,
	}
	maps.Copy(out.Capacity, d.node.Capacity)
	out.Addresses = nodeAddresses(n, problem)
	for _, text := range podCIDRs(n) {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			problem("spec.podCIDRs", text, "a network")
			continue
		}
		out.PodCIDRs = append(out.PodCIDRs, p.Masked())
	}
	return out
}

func podCIDRs(n *corev1.Node) []string {
	if len(n.Spec.PodCIDRs) == 0 && n.Spec.PodCIDR != "" {
		return []string{n.Spec.PodCIDR}
	}
	return n.Spec.PodCIDRs
}

func nodeAddresses(n *corev1.Node, problem func(field, value, allowed string)) []netip.Addr {
	var addresses []netip.Addr
	for _, a := range n.Status.Addresses {
		if a.Type != corev1.NodeInternalIP && a.Type != corev1.NodeExternalIP {
			continue
		}
		ip, err := netip.ParseAddr(a.Address)
		if ip = ip.Unmap(); err != nil || !cluster.Usable(ip) {
			problem("status.addresses", a.Address, "a unicast address")
			continue
		}
		if !slices.Contains(addresses, ip) {
			addresses = append(addresses, ip)
		}
	}
	if len(addresses) == 0 {
		problem("status.addresses", "none", "at least one InternalIP or ExternalIP")
	}
	return addresses
}

// nodeReady says whether new pods can be placed on n.
func nodeReady(n *corev1.Node) bool {
	if n.Spec.Unschedulable || n.DeletionTimestamp != nil {
		return false
	}
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// nodeNamed returns the node of that name. A view of one node learns the names
// of the others from the endpoints.
func (b *builder) nodeNamed(name, zone string) *nodeState {
	n := b.nodes[name]
	if n == nil && b.settings.Node != "" && name != "" {
		n = &nodeState{Node: cluster.Node{Name: name, Zone: zone}}
		b.nodes[name] = n
	}
	return n
}

// finishNodes adds what the pods have told to the nodes. Of a node's images only
// those of managed pods are named.
func (b *builder) finishNodes(pods []cluster.Pod) []cluster.Node {
	used := map[string]bool{}
	for _, p := range pods {
		used[p.Image] = true
	}
	nodes := make([]cluster.Node, 0, len(b.nodes))
	for _, n := range b.nodes {
		if n.object != nil {
			n.Requested = n.requested
			n.Images = heldImages(n.object, used)
		}
		nodes = append(nodes, n.Node)
	}
	slices.SortFunc(nodes, func(a, b cluster.Node) int { return strings.Compare(a.Name, b.Name) })
	return nodes
}

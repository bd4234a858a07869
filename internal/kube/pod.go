// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/edgeweir/weir/internal/cluster"
)

// instance is a pod behind a managed Service.
type instance struct {
	name     string
	object   *corev1.Pod // nil: known from an EndpointSlice alone
	uid      string
	node     *nodeState
	workload string
	request  map[string]float64
	limit    map[string]float64
	services []*managed
	// addresses are one of each family.
	addresses []netip.Addr
	movable   *bool // as annotated on the pod
}

// readPods adds every pod to its node, and remembers the managed ones.
func (b *builder) readPods() {
	for _, p := range b.Pods {
		if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
			continue
		}
		node := b.nodes[p.Spec.NodeName]
		if node == nil {
			continue
		}
		request, limit := requestOf(p), limitOf(p)
		for resource, v := range request {
			node.requested[resource] += v
		}
		for _, resource := range limited {
			if _, ok := limit[string(resource)]; !ok {
				node.unlimited[string(resource)]++
			}
		}
		i := &instance{name: p.Namespace + "/" + p.Name, object: p, uid: string(p.UID), node: node, request: request, limit: limit}
		b.adopt(i)
	}
}

// adopt takes a pod into the view where it is, or may soon be, behind a managed
// Service.
func (b *builder) adopt(i *instance) {
	p := i.object
	services := b.selected.match(p.Namespace, p.Labels)
	if len(services) == 0 && !b.targeted[i.name] {
		return
	}
	for _, ip := range podIPs(p) {
		i.address(ip)
	}
	workload, owner := b.workloads.of(p)
	i.workload = workload
	told := "Pod/" + i.name
	if owner != nil {
		told = objectOf(workload)
	}
	i.movable = declared("Pod", p.Annotations, b.problem(told)).movable
	b.instances[i.name] = i
	for _, m := range services {
		m.take(i)
	}
}

// objectOf names a workload as problems name objects.
func objectOf(workload string) string {
	part := strings.SplitN(workload, "/", 3)
	return part[1] + "/" + part[0] + "/" + part[2]
}

func podIPs(p *corev1.Pod) []netip.Addr {
	texts := []string{p.Status.PodIP}
	for _, ip := range p.Status.PodIPs {
		texts = append(texts, ip.IP)
	}
	var addresses []netip.Addr
	for _, text := range texts {
		if a, err := netip.ParseAddr(text); err == nil {
			addresses = append(addresses, a.Unmap())
		}
	}
	return addresses
}

// address notes an address, the first of its family.
func (i *instance) address(a netip.Addr) {
	other := func(b netip.Addr) bool { return a.Is4() == b.Is4() }
	if cluster.Usable(a) && !slices.ContainsFunc(i.addresses, other) {
		i.addresses = append(i.addresses, a)
	}
}

// pods returns the managed pods, by name.
func (b *builder) pods() []cluster.Pod {
	sizes := imageSizes(b.Nodes)
	pods := make([]cluster.Pod, 0, len(b.instances))
	for _, i := range b.instances {
		p := cluster.Pod{Name: i.name, Node: i.node.Name, Addresses: i.addresses, UID: i.uid, Workload: i.workload}
		if i.object != nil {
			b.describe(&p, i, sizes)
		}
		pods = append(pods, p)
	}
	slices.SortFunc(pods, func(a, b cluster.Pod) int { return strings.Compare(a.Name, b.Name) })
	return pods
}

// describe fills in what only the pod's own object tells.
func (b *builder) describe(p *cluster.Pod, i *instance, sizes map[string]float64) {
	_, owner := b.workloads.of(i.object)
	if owner != nil {
		p.Owner = string(owner.UID)
	}
	p.Unready, p.Draining = !podReady(i.object), i.object.DeletionTimestamp != nil
	p.Request, p.Capacity = i.request, capacityOf(i.request, i.limit, i.node)
	p.Image, p.ImageBytes = largestImage(i.object, sizes)
	p.PinnedWhy = b.pinned(i, owner)
}

func podReady(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

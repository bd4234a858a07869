// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/edgeweir/weir/internal/cluster"
)

// managed is a Service that Weir serves.
type managed struct {
	name, full string // namespace/name, Service/namespace/name
	object     *corev1.Service
	declaration
	addresses []netip.Addr
	instances []*instance
	workloads map[string]bool
	endpoints []map[string]cluster.Endpoint // of each port of the Service, by pod
	workload  string
	fixedWhy  string
	request   map[string]float64
}

// take notes that a pod is behind the Service.
func (m *managed) take(i *instance) {
	if slices.Contains(i.services, m) {
		return
	}
	i.services = append(i.services, m)
	m.instances = append(m.instances, i)
	if i.object != nil && i.object.DeletionTimestamp == nil {
		m.workloads[i.workload] = true
	}
}

// readServices reads the Services, the oldest first: it keeps its address where
// another one claims the same.
func (b *builder) readServices() {
	b.selected = newSelectors[*managed]()
	services := slices.Clone(b.Services)
	slices.SortFunc(services, func(a, b *corev1.Service) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	for _, s := range services {
		name := s.Namespace + "/" + s.Name
		m := &managed{name: name, full: "Service/" + name, object: s, workloads: map[string]bool{}}
		for range s.Spec.Ports {
			m.endpoints = append(m.endpoints, map[string]cluster.Endpoint{})
		}
		problem := b.problem(m.full)
		m.declaration = declared("Service", s.Annotations, problem)
		if !served(s, problem) {
			continue
		}
		m.addresses = serviceAddresses(s, problem)
		b.managed = append(b.managed, m)
		if len(s.Spec.Selector) > 0 {
			b.selected.add(s.Namespace, labels.SelectorFromValidatedSet(s.Spec.Selector), s.Spec.Selector, m)
		}
	}
}

// served says whether Weir can serve s, and tells where it can only in part.
func served(s *corev1.Service, problem func(field, value, allowed string)) bool {
	switch {
	case s.Spec.Type == corev1.ServiceTypeExternalName:
		problem("spec.type", string(s.Spec.Type), "a Service with an address: an ExternalName is not served")
		return false
	case s.Spec.ClusterIP == corev1.ClusterIPNone:
		problem("spec.clusterIP", s.Spec.ClusterIP, "an address: the clients of a headless Service choose the pod, so it is not served")
		return false
	}
	if s.Spec.SessionAffinity == corev1.ServiceAffinityClientIP {
		problem("spec.sessionAffinity", string(s.Spec.SessionAffinity), "None: ratios can't be enforced on clients that stick to a pod")
	}
	return true
}

// serviceAddresses returns the virtual addresses of s.
func serviceAddresses(s *corev1.Service, problem func(field, value, allowed string)) []netip.Addr {
	var addresses []netip.Addr
	add := func(field, text string) {
		if text == "" {
			return
		}
		a, err := netip.ParseAddr(text)
		if a = a.Unmap(); err != nil || !cluster.Usable(a) {
			problem(field, text, "a unicast address")
			return
		}
		if !slices.Contains(addresses, a) {
			addresses = append(addresses, a)
		}
	}
	add("spec.clusterIP", s.Spec.ClusterIP)
	for _, text := range s.Spec.ClusterIPs {
		add("spec.clusterIPs", text)
	}
	for _, text := range s.Spec.ExternalIPs {
		add("spec.externalIPs", text)
	}
	for _, in := range s.Status.LoadBalancer.Ingress {
		// A balancer in proxy mode sends to the node's own addresses.
		if in.IPMode == nil || *in.IPMode == corev1.LoadBalancerIPModeVIP {
			add("status.loadBalancer.ingress", in.IP)
		}
	}
	return addresses
}

// services returns one cluster.Service for each port of the managed Services, by
// name.
func (b *builder) services() []cluster.Service {
	taken := map[cluster.Place]string{}
	var services []cluster.Service
	for _, m := range b.managed {
		for index, port := range m.object.Spec.Ports {
			if l, ok := m.port(index, port, taken, b.problem(m.full)); ok {
				services = append(services, l)
			}
		}
	}
	slices.SortFunc(services, func(a, b cluster.Service) int { return strings.Compare(a.Name, b.Name) })
	return services
}

// port returns one port of m, unless it has no address (yet).
func (m *managed) port(index int, port corev1.ServicePort, taken map[cluster.Place]string, problem func(field, value, allowed string)) (cluster.Service, bool) {
	l := m.service
	l.Name = m.name + ":" + cmp.Or(port.Name, strconv.Itoa(int(port.Port)))
	l.Port, l.Protocol = uint16(port.Port), cluster.Protocol(cmp.Or(port.Protocol, corev1.ProtocolTCP))
	l.Workload, l.FixedWhy, l.PodRequest = m.workload, m.fixedWhy, m.request
	policy := m.object.Spec.InternalTrafficPolicy
	l.TrafficPolicyLocal = policy != nil && *policy == corev1.ServiceInternalTrafficPolicyLocal
	l.Endpoints = slices.SortedFunc(maps.Values(m.endpoints[index]), func(a, b cluster.Endpoint) int { return strings.Compare(a.Pod, b.Pod) })
	l.SetDefaults()
	for _, a := range m.addresses {
		at := cluster.Place{Address: a, Port: l.Port, Protocol: l.Protocol}
		if other, ok := taken[at]; ok {
			problem("spec.ports", at.String(), fmt.Sprintf("an address and port that no other service has; %s has them", other))
			continue
		}
		taken[at] = l.Name
		l.Addresses = append(l.Addresses, a)
	}
	return l, len(l.Addresses) > 0
}

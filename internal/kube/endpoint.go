// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/edgeweir/weir/internal/cluster"
)

// slicesByService returns the EndpointSlices of each Service, in a fixed order,
// and the pods that they name.
func slicesByService(all []*discoveryv1.EndpointSlice) (map[string][]*discoveryv1.EndpointSlice, map[string]bool) {
	of, targeted := map[string][]*discoveryv1.EndpointSlice{}, map[string]bool{}
	for _, s := range all {
		service := s.Namespace + "/" + s.Labels[discoveryv1.LabelServiceName]
		of[service] = append(of[service], s)
		for _, e := range s.Endpoints {
			if e.TargetRef != nil && e.TargetRef.Kind == "Pod" {
				targeted[s.Namespace+"/"+e.TargetRef.Name] = true
			}
		}
	}
	for _, list := range of {
		slices.SortFunc(list, func(a, b *discoveryv1.EndpointSlice) int { return strings.Compare(a.Name, b.Name) })
	}
	return of, targeted
}

// readEndpoints gives each managed Service the endpoints of its slices.
func (b *builder) readEndpoints() {
	for _, m := range b.managed {
		var lost missing
		for _, s := range b.slices[m.name] {
			b.readSlice(m, s, &lost)
		}
		lost.tell(b.problem(m.full))
	}
}

// missing holds the first endpoint of a Service that is left out, by reason.
type missing struct{ podless, unknown string }

func (l missing) tell(problem func(field, value, allowed string)) {
	if l.podless != "" {
		problem("endpoints", l.podless, "endpoints with pods behind them: the others get no task")
	}
	if l.unknown != "" {
		problem("endpoints", l.unknown, "pods that run on known nodes: the others get no task")
	}
}

func (b *builder) readSlice(m *managed, s *discoveryv1.EndpointSlice, lost *missing) {
	if s.AddressType != discoveryv1.AddressTypeIPv4 && s.AddressType != discoveryv1.AddressTypeIPv6 {
		b.problem(m.full)("endpoints", string(s.AddressType), "endpoints with IPv4 or IPv6 addresses")
		return
	}
	for n := range s.Endpoints {
		e := &s.Endpoints[n]
		if !ready(e) && !terminating(e) {
			continue
		}
		if e.TargetRef == nil || e.TargetRef.Kind != "Pod" {
			lost.podless = cmp.Or(lost.podless, strings.Join(e.Addresses, ", "))
			continue
		}
		name := s.Namespace + "/" + e.TargetRef.Name
		i := b.instanceAt(name, e)
		if i == nil {
			lost.unknown = cmp.Or(lost.unknown, name)
			continue
		}
		m.take(i)
		m.serve(i, s.Ports, terminating(e) && !m.object.Spec.PublishNotReadyAddresses)
	}
}

// ready and terminating read an endpoint's conditions with their defaults.
func ready(e *discoveryv1.Endpoint) bool { return e.Conditions.Ready == nil || *e.Conditions.Ready }
func terminating(e *discoveryv1.Endpoint) bool {
	return e.Conditions.Terminating != nil && *e.Conditions.Terminating
}

// instanceAt returns the pod behind an endpoint, or nil where it is not the one
// that is known by this name, or not known to run anywhere.
func (b *builder) instanceAt(name string, e *discoveryv1.Endpoint) *instance {
	i, uid := b.instances[name], string(e.TargetRef.UID)
	if i == nil && b.settings.Node != "" && e.NodeName != nil {
		var zone string
		if e.Zone != nil {
			zone = *e.Zone
		}
		i = &instance{name: name, uid: uid, node: b.nodeNamed(*e.NodeName, zone)}
		b.instances[name] = i
	}
	if i == nil || i.node == nil || uid != "" && i.uid != uid {
		return nil
	}
	for _, text := range e.Addresses {
		if a, err := netip.ParseAddr(text); err == nil {
			i.address(a.Unmap())
		}
	}
	return i
}

// serve adds a pod to each port of the Service that ports, a slice's, name. Of
// an endpoint that comes twice the better state counts: slices overlap while
// they are rewritten.
func (m *managed) serve(i *instance, ports []discoveryv1.EndpointPort, terminating bool) {
	for index, port := range m.object.Spec.Ports {
		for _, p := range ports {
			if p.Port == nil || *p.Port < 1 || *p.Port > 65535 || !serves(p, port) {
				continue
			}
			before, twice := m.endpoints[index][i.name]
			if !twice {
				before = cluster.Endpoint{Pod: i.name, Port: uint16(*p.Port), Terminating: terminating}
			}
			before.Terminating = before.Terminating && terminating
			m.endpoints[index][i.name] = before
		}
	}
}

// serves says whether a slice's port is that of a Service's.
func serves(p discoveryv1.EndpointPort, port corev1.ServicePort) bool {
	var name string
	if p.Name != nil {
		name = *p.Name
	}
	protocol := corev1.ProtocolTCP
	if p.Protocol != nil {
		protocol = *p.Protocol
	}
	wanted := port.Protocol
	if wanted == "" {
		wanted = corev1.ProtocolTCP
	}
	return name == port.Name && protocol == wanted
}

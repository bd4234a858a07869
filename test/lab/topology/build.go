// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
)

const (
	uplink = "eth0" // every namespace's device towards the fabric or its node
	bridge = "br0"
)

// hostSysctls hold in every namespace: no waiting for duplicate addresses, paths
// that differ by direction allowed, and no router's advice taken or given that
// would lead packets around the node they were sent through.
var hostSysctls = map[string]string{
	"net/ipv4/conf/all/rp_filter":            "0",
	"net/ipv4/conf/default/rp_filter":        "0",
	"net/ipv4/conf/all/send_redirects":       "0",
	"net/ipv4/conf/default/send_redirects":   "0",
	"net/ipv4/conf/all/accept_redirects":     "0",
	"net/ipv4/conf/default/accept_redirects": "0",
	"net/ipv6/conf/all/accept_dad":           "0",
	"net/ipv6/conf/default/accept_dad":       "0",
	"net/ipv6/conf/all/accept_redirects":     "0",
	"net/ipv6/conf/default/accept_redirects": "0",
}

// nodeSysctls make a router of a node.
var nodeSysctls = map[string]string{
	"net/ipv4/ip_forward":          "1",
	"net/ipv6/conf/all/forwarding": "1",
}

// builder makes what a layout describes.
type builder struct {
	*Layout
	bridge *site
	fabric netlink.Link
}

func (b *builder) build() error {
	for _, name := range b.namespaces() {
		if err := makeNamespace(name); err != nil {
			return err
		}
		if err := setSysctls(name, hostSysctls); err != nil {
			return err
		}
	}
	for _, n := range b.Nodes {
		if err := setSysctls(n.Namespace, nodeSysctls); err != nil {
			return err
		}
	}
	if err := b.buildBridge(); err != nil {
		return err
	}
	defer b.bridge.close()
	steps := []func() error{b.buildControl, b.buildClient}
	for i := range b.Nodes {
		steps = append(steps, func() error { return b.buildNode(&b.Nodes[i]) })
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (b *builder) buildBridge() error {
	s, err := openSite(b.Bridge)
	if err != nil {
		return err
	}
	b.bridge = s
	attrs := netlink.NewLinkAttrs()
	attrs.Name = bridge
	if err := s.nl.LinkAdd(&netlink.Bridge{LinkAttrs: attrs}); err != nil {
		s.close()
		return fmt.Errorf("make the switch in %s: %w", s.name, err)
	}
	b.fabric, err = s.up(bridge)
	return err
}

// plug joins a host to the switch and gives it its addresses.
func (b *builder) plug(s *site, h Host, port string) (netlink.Link, error) {
	if _, err := s.up("lo"); err != nil {
		return nil, err
	}
	link, peer, err := join(s, uplink, b.bridge, port)
	if err != nil {
		return nil, err
	}
	if err := b.bridge.nl.LinkSetMaster(peer, b.fabric); err != nil {
		return nil, fmt.Errorf("plug %s into the switch: %w", s.name, err)
	}
	return link, errors.Join(
		s.addAddress(link, h.IPv4, fabricBits4),
		s.addAddress(link, h.IPv6, fabricBits6))
}

// podRoutes leads to the pods of every node but the excepted.
func (b *builder) podRoutes(except string) []route {
	var routes []route
	for _, n := range b.Nodes {
		if n.Name != except {
			routes = append(routes, route{to: n.PodCIDR4, via: n.IPv4}, route{to: n.PodCIDR6, via: n.IPv6})
		}
	}
	return routes
}

func (b *builder) buildControl() error {
	s, err := openSite(b.Control.Namespace)
	if err != nil {
		return err
	}
	defer s.close()
	link, err := b.plug(s, b.Control, "control")
	if err != nil {
		return err
	}
	return s.addRoutes(link, b.podRoutes(""))
}

// buildClient gives the client one source address per node, and for each a
// routing table whose only next hop is that node.
func (b *builder) buildClient() error {
	s, err := openSite(b.Client.Namespace)
	if err != nil {
		return err
	}
	defer s.close()
	link, err := b.plug(s, b.Client, "client")
	if err != nil {
		return err
	}
	for _, n := range b.Nodes {
		for source, hop := range map[netip.Addr]netip.Addr{n.ClientSource4: n.IPv4, n.ClientSource6: n.IPv6} {
			err := errors.Join(
				s.addAddress(link, source, source.BitLen()),
				s.addRoute(link, route{via: hop, table: n.clientTable}),
				s.addRule(source, n.clientTable))
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *builder) buildNode(n *Node) error {
	s, err := openSite(n.Namespace)
	if err != nil {
		return err
	}
	defer s.close()
	link, err := b.plug(s, n.Host, fmt.Sprintf("node%d", n.Number))
	if err != nil {
		return err
	}
	routes := append(b.podRoutes(n.Name),
		route{to: clientSources4, via: b.Client.IPv4},
		route{to: clientSources6, via: b.Client.IPv6})
	if err := s.addRoutes(link, routes); err != nil {
		return err
	}
	for i := range b.Pods {
		if b.Pods[i].Node != n.Name {
			continue
		}
		if err := buildPod(s, n, &b.Pods[i]); err != nil {
			return err
		}
	}
	return nil
}

// buildPod joins a pod with its node point to point, as most network plugins do:
// the node routes to each pod's address by its own device.
func buildPod(node *site, n *Node, p *Pod) error {
	s, err := openSite(p.Namespace)
	if err != nil {
		return err
	}
	defer s.close()
	if _, err := s.up("lo"); err != nil {
		return err
	}
	atNode, atPod, err := join(node, p.Device, s, uplink)
	if err != nil {
		return err
	}
	return errors.Join(
		node.addAddress(atNode, n.gateway4, 32),
		node.addAddress(atNode, gateway6, 64),
		node.addRoute(atNode, route{to: netip.PrefixFrom(p.IPv4, 32)}),
		node.addRoute(atNode, route{to: netip.PrefixFrom(p.IPv6, 128)}),
		s.addAddress(atPod, p.IPv4, 32),
		s.addAddress(atPod, p.IPv6, 128),
		s.addRoutes(atPod, []route{{to: netip.PrefixFrom(n.gateway4, 32)}, {via: n.gateway4}, {via: gateway6}}),
	)
}

// addRoutes adds routes over one device, in order.
func (s *site) addRoutes(link netlink.Link, routes []route) error {
	for _, r := range routes {
		if err := s.addRoute(link, r); err != nil {
			return err
		}
	}
	return nil
}

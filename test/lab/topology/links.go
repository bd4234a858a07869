// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// site is a network namespace as netlink sees it.
type site struct {
	name string
	ns   netns.NsHandle
	nl   *netlink.Handle
}

func openSite(name string) (*site, error) {
	ns, err := netns.GetFromName(name)
	if err != nil {
		return nil, fmt.Errorf("open network namespace %s: %w", name, err)
	}
	nl, err := netlink.NewHandleAt(ns)
	if err != nil {
		ns.Close()
		return nil, fmt.Errorf("open netlink in %s: %w", name, err)
	}
	return &site{name: name, ns: ns, nl: nl}, nil
}

func (s *site) close() {
	s.nl.Close()
	s.ns.Close()
}

// up sets the named device up and returns it.
func (s *site) up(device string) (netlink.Link, error) {
	link, err := s.nl.LinkByName(device)
	if err != nil {
		return nil, fmt.Errorf("find device %s in %s: %w", device, s.name, err)
	}
	if err := s.nl.LinkSetUp(link); err != nil {
		return nil, fmt.Errorf("set up device %s in %s: %w", device, s.name, err)
	}
	return link, nil
}

// join makes a veth pair between the two namespaces, both ends up.
func join(a *site, deviceA string, b *site, deviceB string) (linkA, linkB netlink.Link, err error) {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = deviceA
	veth := &netlink.Veth{LinkAttrs: attrs, PeerName: deviceB, PeerNamespace: netlink.NsFd(int(b.ns))}
	if err := a.nl.LinkAdd(veth); err != nil {
		return nil, nil, fmt.Errorf("join %s in %s with %s in %s: %w", deviceA, a.name, deviceB, b.name, err)
	}
	if linkA, err = a.up(deviceA); err != nil {
		return nil, nil, err
	}
	linkB, err = b.up(deviceB)
	return linkA, linkB, err
}

// addAddress gives the device an address with a prefix of so many bits.
func (s *site) addAddress(link netlink.Link, addr netip.Addr, bits int) error {
	a := &netlink.Addr{IPNet: ipNet(netip.PrefixFrom(addr, bits))}
	if addr.Is6() {
		a.Flags = unix.IFA_F_NODAD // usable at once
	}
	if err := s.nl.AddrAdd(link, a); err != nil {
		return fmt.Errorf("add address %v to %s in %s: %w", addr, link.Attrs().Name, s.name, err)
	}
	return nil
}

// route is one entry of a routing table.
type route struct {
	to    netip.Prefix // zero is everything
	via   netip.Addr   // zero is on the link itself
	table int          // 0 is main
}

func (s *site) addRoute(link netlink.Link, r route) error {
	to := r.to
	if !to.IsValid() {
		to = netip.PrefixFrom(netip.IPv4Unspecified(), 0)
		if r.via.Is6() {
			to = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
		}
	}
	nr := &netlink.Route{LinkIndex: link.Attrs().Index, Dst: ipNet(to), Table: r.table}
	if r.via.IsValid() {
		nr.Gw = r.via.AsSlice()
	} else if to.Addr().Is4() {
		nr.Scope = netlink.SCOPE_LINK
	}
	if err := s.nl.RouteAdd(nr); err != nil {
		return fmt.Errorf("add route to %v via %v in %s: %w", to, r.via, s.name, err)
	}
	return nil
}

// addRule sends what comes from the address to the routing table.
func (s *site) addRule(from netip.Addr, table int) error {
	rule := netlink.NewRule()
	rule.Src = ipNet(netip.PrefixFrom(from, from.BitLen()))
	rule.Table = table
	rule.Priority = table
	rule.Family = unix.AF_INET
	if from.Is6() {
		rule.Family = unix.AF_INET6
	}
	if err := s.nl.RuleAdd(rule); err != nil {
		return fmt.Errorf("add rule from %v to table %d in %s: %w", from, table, s.name, err)
	}
	return nil
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// SPDX-License-Identifier: Apache-2.0

package host

import (
	"net/netip"
	"slices"

	"github.com/edgeweir/weir/nodeagent/ipvs"
)

// Desired is what the node has to be ready for.
type Desired struct {
	// Services are our virtual servers, those that still drain included.
	Services []ipvs.Key
	// PodCIDRs are the ranges of all pods of the cluster, whose answers come back
	// through the node that holds the client. Any other source is masqueraded;
	// so is every source of an address family without a range.
	PodCIDRs []netip.Prefix
	// Endpoints are the addresses of pods that serve: one that connects to its
	// own service and gets itself (hairpin) is masqueraded.
	Endpoints []netip.Addr
}

// state is what follows from Desired and from the addresses of other devices.
type state struct {
	addresses []netip.Addr // on the device
	elements  map[string][]element
	refused   Conflicts
}

// derive computes the state; held names the device of each address that is on a
// device other than ours. Services on such an address are left out of
// everything: the rules that guard a virtual server's other ports would cut
// the node off from its own address.
func derive(d Desired, held map[netip.Addr]string) state {
	s := state{elements: map[string][]element{}}
	seen := map[netip.Addr]bool{} // whether usable
	for _, k := range d.Services {
		usable, known := seen[k.Address]
		if !known {
			usable = s.admit(k.Address, held)
			seen[k.Address] = usable
		}
		if usable {
			s.put("vips", k.Address, vipElement(k))
		}
	}
	for _, e := range d.Endpoints {
		s.put("hairpin", e, pairElement(e))
	}
	for _, r := range merge(d.PodCIDRs) {
		s.put("pods", r.first, rangeElements(r)...)
	}
	for name := range s.elements {
		slices.SortFunc(s.elements[name], element.compare)
		s.elements[name] = slices.Compact(s.elements[name])
	}
	slices.SortFunc(s.addresses, netip.Addr.Compare)
	return s
}

func (s *state) admit(a netip.Addr, held map[netip.Addr]string) bool {
	device, taken := held[a]
	if taken || !a.IsGlobalUnicast() {
		s.refused = append(s.refused, Conflict{a, device})
		return false
	}
	s.addresses = append(s.addresses, a)
	s.put("addresses", a, element{key: string(a.AsSlice())})
	return true
}

// put adds to the set of the address' family: sets are named vips4, vips6, ….
func (s *state) put(set string, a netip.Addr, elements ...element) {
	name := set + "4"
	if a.Is6() {
		name = set + "6"
	}
	s.elements[name] = append(s.elements[name], elements...)
}

func (s *state) hasIPv6() bool { return len(s.elements["addresses6"]) > 0 }

// addressRange is an inclusive range of addresses of one family.
type addressRange struct{ first, last netip.Addr }

// merge turns prefixes into disjoint ranges that do not touch, since an
// interval set refuses overlaps.
func merge(prefixes []netip.Prefix) []addressRange {
	var ranges []addressRange
	for _, p := range prefixes {
		if p.IsValid() {
			p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()).Masked()
			ranges = append(ranges, addressRange{p.Addr(), lastOf(p)})
		}
	}
	slices.SortFunc(ranges, func(a, b addressRange) int { return a.first.Compare(b.first) })
	var merged []addressRange
	for _, r := range ranges {
		if n := len(merged); n > 0 && merged[n-1].reaches(r.first) {
			if merged[n-1].last.Less(r.last) {
				merged[n-1].last = r.last
			}
			continue
		}
		merged = append(merged, r)
	}
	return merged
}

// reaches says whether a, not before r, is in r or the next address after it.
func (r addressRange) reaches(a netip.Addr) bool {
	return a.BitLen() == r.last.BitLen() && (a.Compare(r.last) <= 0 || r.last.Next() == a)
}

func lastOf(p netip.Prefix) netip.Addr {
	bytes := p.Addr().AsSlice()
	for bit := p.Bits(); bit < len(bytes)*8; bit++ {
		bytes[bit/8] |= 0x80 >> (bit % 8)
	}
	last, _ := netip.AddrFromSlice(bytes)
	return last
}

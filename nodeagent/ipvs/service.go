// SPDX-License-Identifier: Apache-2.0

package ipvs

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"net/netip"
	"slices"
	"time"
)

// Protocol is an IP protocol number.
type Protocol uint8

// The protocols that IPVS balances.
const (
	TCP  Protocol = 6
	UDP  Protocol = 17
	SCTP Protocol = 132
)

func (p Protocol) String() string {
	switch p {
	case TCP:
		return "TCP"
	case UDP:
		return "UDP"
	case SCTP:
		return "SCTP"
	}
	return fmt.Sprintf("protocol %d", uint8(p))
}

// MaxWeight is the largest weight that survives a read: moby/ipvs decodes
// weights as 16 bits.
const MaxWeight = 65535

// Key names a virtual server.
type Key struct {
	Address  netip.Addr
	Port     uint16
	Protocol Protocol
}

func (k Key) String() string {
	return fmt.Sprintf("%s/%s", netip.AddrPortFrom(k.Address, k.Port), k.Protocol)
}

// Compare orders keys by address, port and protocol.
func (k Key) Compare(o Key) int {
	return cmp.Or(k.Address.Compare(o.Address), cmp.Compare(k.Port, o.Port), cmp.Compare(k.Protocol, o.Protocol))
}

// Service is a virtual server. The zero Affinity means that each connection is
// balanced on its own.
type Service struct {
	Address      netip.Addr
	Port         uint16
	Protocol     Protocol
	Scheduler    string        // kernel name: rr, lc, wrr, wlc, sed, mh
	Affinity     time.Duration // ClientIP affinity, in whole seconds
	Destinations []Destination // creation order; the kernel walks it backwards

	// Read only.
	Connections uint32 // since creation, modulo 2^32, up to 2 s old: see Delta
	Flags       uint32 // as the kernel has them, without flagHashed
	Netmask     uint32 // granularity of affinity
}

// Key returns the name of the virtual server.
func (s Service) Key() Key { return Key{s.Address, s.Port, s.Protocol} }

// Destination is a real server of a virtual server, reached by masquerading.
type Destination struct {
	Address netip.Addr
	Port    uint16
	Weight  uint32 // 0 takes no new connections; at most MaxWeight

	// Read only.
	ActiveConns   uint32 // TCP: established or opening; UDP: flows not yet timed out
	InactiveConns uint32 // TCP: closing
	Connections   uint32 // since creation, modulo 2^32, up to 2 s old: see Delta
	Method        uint32 // forwarding method; 0, masquerading, is the only one of ours
}

// Endpoint returns the destination's address and port.
func (d Destination) Endpoint() netip.AddrPort { return netip.AddrPortFrom(d.Address, d.Port) }

// Delta returns how far a 32-bit kernel counter went from before to now. It
// wraps; a step back by less than half its range is a new counter, which
// started from 0.
func Delta(before, now uint32) uint32 {
	if d := now - before; d < 1<<31 {
		return d
	}
	return now
}

// Stagger sorts destinations into an order that differs from node to node and
// is the same each time on one node. Round-robin schedulers start from the end
// of the list, so with one order everywhere every node would send its first
// connection to the same pod (kubernetes#121591).
func Stagger(node string, destinations []Destination) {
	rank := make(map[netip.AddrPort]uint64, len(destinations))
	for _, d := range destinations {
		h := fnv.New64a()
		fmt.Fprintf(h, "%s|%s", d.Endpoint(), node)
		rank[d.Endpoint()] = mix(h.Sum64())
	}
	slices.SortFunc(destinations, func(a, b Destination) int {
		return cmp.Or(cmp.Compare(rank[a.Endpoint()], rank[b.Endpoint()]), a.Endpoint().Compare(b.Endpoint()))
	})
}

// mix is the finaliser of splitmix64: FNV alone leaves the high bits of similar
// strings alike, and the order of nodes node-1 and node-2 with them.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

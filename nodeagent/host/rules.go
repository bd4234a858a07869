// SPDX-License-Identifier: Apache-2.0

package host

import (
	"fmt"
	"hash/fnv"

	"golang.org/x/sys/unix"
)

// tableName is the nftables table of family inet that is ours alone.
const tableName = "weir"

const (
	// afterIPVS is behind IPVS at LOCAL_IN (98 and 99) and destination NAT (100):
	// what arrives here for a virtual server's address was not taken by IPVS.
	afterIPVS = 110
	sourceNAT = 100
)

// rule is a rule with the comment that `nft list` shows.
type rule struct {
	comment string
	match   expressions
}

// chain is a chain and its rules; those without a kind are jumped to.
type chain struct {
	name     string
	kind     string
	hook     uint32
	priority uint32
	rules    []rule
}

// chains returns the table's chains, those that are jumped to first. Rules never
// change with the services: only the sets do.
func chains() []chain {
	return []chain{
		{name: "vip", rules: vipRules()},
		{name: "input", kind: "filter", hook: unix.NF_INET_LOCAL_IN, priority: afterIPVS, rules: []rule{
			{"guard service addresses", join(family(ip4), network(16, 4, first), inSet("addresses4"), jump("vip"))},
			{"guard service addresses", join(family(ip6), network(24, 16, first), inSet("addresses6"), jump("vip"))},
		}},
		{name: "answers", rules: answerRules()},
		{name: "postrouting", kind: "nat", hook: unix.NF_INET_POST_ROUTING, priority: sourceNAT, rules: []rule{
			{"came for a virtual server", join(family(ip4), original(unix.NFT_CT_DST_IP, first), protocol(second),
				original(unix.NFT_CT_PROTO_DST, third), inSet("vips4"), jump("answers"))},
			{"came for a virtual server", join(family(ip6), original(unix.NFT_CT_DST_IP6, first), protocol(fifth),
				original(unix.NFT_CT_PROTO_DST, sixth), inSet("vips6"), jump("answers"))},
		}},
	}
}

const (
	ip4 = unix.NFPROTO_IPV4
	ip6 = unix.NFPROTO_IPV6
)

// vipRules guard the node behind its service addresses. A connection whose
// virtual server was flushed is dropped, not reset, so that it lives on when
// the server is back.
func vipRules() []rule {
	packet4 := join(network(16, 4, first), protocol(second), packetPort(third))
	packet6 := join(network(24, 16, first), protocol(fifth), packetPort(sixth))
	return []rule{
		{"answers to the node's own connections", join(isReply(), accept())},
		{"icmp", join(isProtocol(unix.IPPROTO_ICMP), accept())},
		{"icmp", join(isProtocol(unix.IPPROTO_ICMPV6), accept())},
		{"not taken by ipvs", join(family(ip4), packet4, inSet("vips4"), counter(), drop())},
		{"not taken by ipvs", join(family(ip6), packet6, inSet("vips6"), counter(), drop())},
		{"no such port", join(isProtocol(unix.IPPROTO_TCP), counter(), reject(unix.NFT_REJECT_TCP_RST, 0))},
		{"no such port", join(counter(), reject(unix.NFT_REJECT_ICMPX_UNREACH, unix.NFT_REJECT_ICMPX_PORT_UNREACH))},
	}
}

// answerRules masquerade what would not be answered through this node.
func answerRules() []rule {
	pair4 := join(network(12, 4, first), network(16, 4, second))
	pair6 := join(network(8, 16, first), network(24, 16, fifth))
	return []rule{
		{"from this node, whose source is the service address", join(isFromLocal(), counter(), masquerade())},
		{"from a pod to itself", join(family(ip4), pair4, inSet("hairpin4"), counter(), masquerade())},
		{"from a pod to itself", join(family(ip6), pair6, inSet("hairpin6"), counter(), masquerade())},
		{"from outside of the cluster", join(family(ip4), network(12, 4, first), notInSet("pods4"), counter(), masquerade())},
		{"from outside of the cluster", join(family(ip6), network(8, 16, first), notInSet("pods6"), counter(), masquerade())},
	}
}

// fingerprint is a mark of the whole table's form. It is part of every rule's
// comment, so a table of another version is known as such.
func fingerprint() string {
	h := fnv.New32a()
	for _, s := range sets() {
		fmt.Fprintf(h, "%+v\n", s)
	}
	for _, c := range chains() {
		fmt.Fprintf(h, "%s %s %d %d\n", c.name, c.kind, c.hook, c.priority)
		for _, r := range c.rules {
			fmt.Fprintf(h, "%s %x\n", r.comment, marshal(r.match))
		}
	}
	return fmt.Sprintf("%08x", h.Sum32())
}

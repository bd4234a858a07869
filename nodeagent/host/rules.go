// SPDX-License-Identifier: Apache-2.0

package host

import (
	"fmt"
	"hash/fnv"
	"sync"

	"golang.org/x/sys/unix"
)

// tableName is the nftables table of family inet that is ours alone.
const tableName = "weir"

const (
	// afterIPVS is behind IPVS at LOCAL_IN (98 and 99) and destination NAT (100):
	// what arrives here for a virtual server's address was not taken by IPVS.
	afterIPVS = 110
	// afterLocalIPVS is behind IPVS at LOCAL_OUT (-99 and -98).
	afterLocalIPVS = -90
	sourceNAT      = 100
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
	priority int32
	rules    []rule
}

// chains returns the table's chains, those that are jumped to first. Rules never
// change with the services: only the sets do.
var chains = sync.OnceValue(func() []chain {
	return []chain{
		{name: "vip", rules: vipRules()},
		{name: "input", kind: "filter", hook: unix.NF_INET_LOCAL_IN, priority: afterIPVS, rules: append(notTranslated(), []rule{
			{"guard service addresses", join(family(ip4), network(16, 4, first), inSet("addresses4"), jump("vip"))},
			{"guard service addresses", join(family(ip6), network(24, 16, first), inSet("addresses6"), jump("vip"))},
		}...)},
		{name: "forward", kind: "filter", hook: unix.NF_INET_FORWARD, priority: afterIPVS, rules: notTranslated()},
		{name: "output", kind: "filter", hook: unix.NF_INET_LOCAL_OUT, priority: afterLocalIPVS, rules: append(notTaken(), refusals()...)},
		{name: "answers", rules: answerRules()},
		{name: "postrouting", kind: "nat", hook: unix.NF_INET_POST_ROUTING, priority: sourceNAT, rules: []rule{
			{"came for a virtual server", join(cameForVIP4(), jump("answers"))},
			{"came for a virtual server", join(cameForVIP6(), jump("answers"))},
		}},
	}
})

const (
	ip4 = unix.NFPROTO_IPV4
	ip6 = unix.NFPROTO_IPV6
)

// cameForVIP4 is ct original ip daddr . meta l4proto . ct original proto-dst @vips4.
func cameForVIP4() expressions {
	return join(family(ip4), original(unix.NFT_CT_DST_IP, first), protocol(second),
		original(unix.NFT_CT_PROTO_DST, third), inSet("vips4"))
}

func cameForVIP6() expressions {
	return join(family(ip6), original(unix.NFT_CT_DST_IP6, first), protocol(fifth),
		original(unix.NFT_CT_PROTO_DST, sixth), inSet("vips6"))
}

// notTranslated drops what a pod answers while the table is flushed: the kernel
// then takes IPVS out of the way, and a client that gets an answer from the
// pod's own address resets the pod's connection. Answers that conntrack
// translates, kube-proxy's, are left alone.
func notTranslated() []rule {
	return []rule{
		{"answer not translated by ipvs", join(isReply(), isNotDNAT(), cameForVIP4(),
			network(12, 4, first), notInSet("addresses4"), counter(), drop())},
		{"answer not translated by ipvs", join(isReply(), isNotDNAT(), cameForVIP6(),
			network(8, 16, first), notInSet("addresses6"), counter(), drop())},
	}
}

// notTaken drops the packets of a connection whose virtual server was flushed:
// dropped and not reset, it lives on when the server is back. The node's own have
// to be dropped before they turn to the loopback device, or masquerading forgets
// a connection that leaves by another device than before.
func notTaken() []rule {
	packet4 := join(network(16, 4, first), protocol(second), packetPort(third))
	packet6 := join(network(24, 16, first), protocol(fifth), packetPort(sixth))
	return []rule{
		{"not taken by ipvs", join(family(ip4), packet4, inSet("vips4"), counter(), drop())},
		{"not taken by ipvs", join(family(ip6), packet6, inSet("vips6"), counter(), drop())},
	}
}

// refusals drops the ICMP errors by which IPVS refuses a new connection. It does
// so in the instant in which a virtual server's scheduler is exchanged: the old
// one is let go, all processors are waited for, then the new one is bound. A
// client that hears nothing sends its SYN again. What the guard below refuses is
// no virtual server's, and is answered.
func refusals() []rule {
	// In an ICMP error the packet that it is about stands behind 8 bytes.
	about4 := join(transport(8+16, 4, first), transport(8+9, 1, second), transport(8+20+2, 2, third))
	about6 := join(transport(8+24, 16, first), transport(8+6, 1, fifth), transport(8+40+2, 2, sixth))
	return []rule{
		{"refused by ipvs", join(isProtocol(unix.IPPROTO_ICMP), transport(0, 2, first), equals(3, 3),
			about4, inSet("vips4"), counter(), drop())},
		{"refused by ipvs", join(isProtocol(unix.IPPROTO_ICMPV6), transport(0, 2, first), equals(1, 4),
			about6, inSet("vips6"), counter(), drop())},
	}
}

// vipRules guard the node behind its service addresses.
func vipRules() []rule {
	start := []rule{
		{"answers to the node's own connections", join(isReply(), accept())},
		{"icmp", join(isProtocol(unix.IPPROTO_ICMP), accept())},
		{"icmp", join(isProtocol(unix.IPPROTO_ICMPV6), accept())},
	}
	return append(append(start, notTaken()...), []rule{
		{"no such port", join(isProtocol(unix.IPPROTO_TCP), counter(), reject(unix.NFT_REJECT_TCP_RST, 0))},
		{"no such port", join(counter(), reject(unix.NFT_REJECT_ICMPX_UNREACH, unix.NFT_REJECT_ICMPX_PORT_UNREACH))},
	}...)
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
var fingerprint = sync.OnceValue(func() string {
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
})

// SPDX-License-Identifier: Apache-2.0

package host

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// expressions are a part of a rule in the form of netlink.
type expressions []field

func join(parts ...expressions) expressions {
	var all expressions
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

func expression(name string, data ...field) expressions {
	return expressions{nest(unix.NFTA_LIST_ELEM, text(unix.NFTA_EXPR_NAME, name), nest(unix.NFTA_EXPR_DATA, data...))}
}

// Registers of four bytes; an IPv6 address takes four of them.
const (
	first  = unix.NFT_REG32_00
	second = first + 1
	third  = first + 2
	fifth  = first + 4
	sixth  = first + 5
)

func meta(key, register uint32) expressions {
	return expression("meta", u32(unix.NFTA_META_DREG, register), u32(unix.NFTA_META_KEY, key))
}

func payload(base, offset, length, register uint32) expressions {
	return expression("payload", u32(unix.NFTA_PAYLOAD_DREG, register), u32(unix.NFTA_PAYLOAD_BASE, base),
		u32(unix.NFTA_PAYLOAD_OFFSET, offset), u32(unix.NFTA_PAYLOAD_LEN, length))
}

func network(offset, length, register uint32) expressions {
	return payload(unix.NFT_PAYLOAD_NETWORK_HEADER, offset, length, register)
}

func transport(offset, length, register uint32) expressions {
	return payload(unix.NFT_PAYLOAD_TRANSPORT_HEADER, offset, length, register)
}

// packetPort is th dport.
func packetPort(register uint32) expressions { return transport(2, 2, register) }

// protocol is meta l4proto.
func protocol(register uint32) expressions { return meta(unix.NFT_META_L4PROTO, register) }

// original is ct original and one of its keys.
func original(key, register uint32) expressions {
	return expression("ct", u32(unix.NFTA_CT_DREG, register), u32(unix.NFTA_CT_KEY, key), u8(unix.NFTA_CT_DIRECTION, 0))
}

// equals compares the first register.
func equals(value ...byte) expressions {
	return expression("cmp", u32(unix.NFTA_CMP_SREG, first), u32(unix.NFTA_CMP_OP, unix.NFT_CMP_EQ),
		nest(unix.NFTA_CMP_DATA, field{Type: unix.NFTA_DATA_VALUE, Data: value}))
}

func family(number byte) expressions { return join(meta(unix.NFT_META_NFPROTO, first), equals(number)) }

func isProtocol(number byte) expressions { return join(protocol(first), equals(number)) }

// isReply is ct direction reply.
func isReply() expressions {
	return join(expression("ct", u32(unix.NFTA_CT_DREG, first), u32(unix.NFTA_CT_KEY, unix.NFT_CT_DIRECTION)), equals(1))
}

// isNotDNAT is ct status ! dnat: no destination NAT by conntrack.
func isNotDNAT() expressions {
	mask := binary.NativeEndian.AppendUint32(nil, 1<<5) // IPS_DST_NAT
	return join(expression("ct", u32(unix.NFTA_CT_DREG, first), u32(unix.NFTA_CT_KEY, unix.NFT_CT_STATUS)),
		expression("bitwise", u32(unix.NFTA_BITWISE_SREG, first), u32(unix.NFTA_BITWISE_DREG, first), u32(unix.NFTA_BITWISE_LEN, 4),
			nest(unix.NFTA_BITWISE_MASK, field{Type: unix.NFTA_DATA_VALUE, Data: mask}),
			nest(unix.NFTA_BITWISE_XOR, field{Type: unix.NFTA_DATA_VALUE, Data: make([]byte, 4)})),
		equals(0, 0, 0, 0))
}

// isFromLocal is fib saddr type local.
func isFromLocal() expressions {
	return join(expression("fib", u32(unix.NFTA_FIB_DREG, first),
		u32(unix.NFTA_FIB_RESULT, unix.NFT_FIB_RESULT_ADDRTYPE), u32(unix.NFTA_FIB_FLAGS, unix.NFTA_FIB_F_SADDR)),
		equals(binary.NativeEndian.AppendUint32(nil, unix.RTN_LOCAL)...))
}

func inSet(name string) expressions {
	return expression("lookup", text(unix.NFTA_LOOKUP_SET, name), u32(unix.NFTA_LOOKUP_SREG, first))
}

func notInSet(name string) expressions {
	return expression("lookup", text(unix.NFTA_LOOKUP_SET, name), u32(unix.NFTA_LOOKUP_SREG, first),
		u32(unix.NFTA_LOOKUP_FLAGS, unix.NFT_LOOKUP_F_INV))
}

func verdict(fields ...field) expressions {
	return expression("immediate", u32(unix.NFTA_IMMEDIATE_DREG, unix.NFT_REG_VERDICT),
		nest(unix.NFTA_IMMEDIATE_DATA, nest(unix.NFTA_DATA_VERDICT, fields...)))
}

// Verdicts of include/uapi/linux/netfilter.h.
const (
	nfDrop   = 0
	nfAccept = 1
)

func accept() expressions { return verdict(u32(unix.NFTA_VERDICT_CODE, nfAccept)) }
func drop() expressions   { return verdict(u32(unix.NFTA_VERDICT_CODE, nfDrop)) }

func jump(chain string) expressions {
	code := unix.NFT_JUMP // negative: a constant conversion would not do
	return verdict(u32(unix.NFTA_VERDICT_CODE, uint32(code)), text(unix.NFTA_VERDICT_CHAIN, chain))
}

func reject(kind uint32, code uint8) expressions {
	return expression("reject", u32(unix.NFTA_REJECT_TYPE, kind), u8(unix.NFTA_REJECT_ICMP_CODE, code))
}

func counter() expressions { return expression("counter") }

// masquerade takes source ports at random, so that two nodes' clients which
// meet behind one address don't collide.
func masquerade() expressions {
	const randomFully = 1 << 4 // NF_NAT_RANGE_PROTO_RANDOM_FULLY
	return expression("masq", u32(unix.NFTA_MASQ_FLAGS, randomFully))
}

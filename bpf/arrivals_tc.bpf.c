//go:build ignore

// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0)

/*
 * Arrivals counted at the ingress of devices, by tcx or clsact, where netfilter
 * links are missing. It needs no BTF of the kernel. It does not see clients in
 * the node's own network namespace, and sees what a firewall may drop later.
 */
#include "kernel.h"

#define ETH_P_IP 0x0800
#define ETH_P_IPV6 0x86dd
#define BPF_HDR_START_NET 1
#define TC_ACT_UNSPEC -1

/* The head of the kernel's struct: offsets of this context are fixed for ever. */
struct __sk_buff {
	__u32 len;
	__u32 pkt_type;
	__u32 mark;
	__u32 queue_mapping;
	__u32 protocol;
};

static long (*const bpf_skb_load_bytes_relative)(const void *skb, __u32 offset, void *to, __u32 len,
						 __u32 start_header) = (void *)68;

typedef struct __sk_buff packet_t;

/* From the network header, so that devices without a link layer are the same. */
static __inline const void *packet_at(packet_t *packet, __u32 offset, void *buffer, __u32 size)
{
	if (bpf_skb_load_bytes_relative(packet, offset, buffer, size, BPF_HDR_START_NET))
		return NULL;
	return buffer;
}

#include "arrivals.h"

SEC("tc")
int arrivals_tc(struct __sk_buff *skb)
{
	if (skb->protocol == be16(ETH_P_IP))
		count_packet(skb, false, false);
	else if (skb->protocol == be16(ETH_P_IPV6))
		count_packet(skb, true, false);
	return TC_ACT_UNSPEC;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";

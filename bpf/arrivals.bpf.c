//go:build ignore

// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0)

/*
 * Arrivals counted by netfilter links, just before IPVS balances the packet:
 * LOCAL_IN for what comes to the node, LOCAL_OUT for what it sends itself. For
 * kernels of 6.4 and later with BTF. Fragments to LOCAL_IN are whole again.
 */
#include "kernel.h"

#define NFPROTO_IPV6 10
#define NF_ACCEPT 1

struct nf_hook_state {
	__u8 pf;
} __attribute__((preserve_access_index));

struct sk_buff;

/* What kfuncs call a packet; never looked into here. */
struct __sk_buff {
	__u32 len;
};

struct bpf_nf_ctx {
	const struct nf_hook_state *state;
	struct sk_buff *skb;
} __attribute__((preserve_access_index));

struct bpf_dynptr {
	__u64 opaque[2];
} __attribute__((aligned(8)));

extern int bpf_dynptr_from_skb(struct __sk_buff *skb, __u64 flags, struct bpf_dynptr *ptr) __ksym;
extern void *bpf_dynptr_slice(const struct bpf_dynptr *ptr, __u32 offset, void *buffer,
			      __u32 buffer__szk) __ksym;

typedef struct bpf_dynptr packet_t;

/* The bytes at offset from the network header, in place or in the buffer. */
#define packet_at(packet, offset, buffer, size) bpf_dynptr_slice(packet, offset, buffer, size)

#include "arrivals.h"

static __inline int count_skb(struct bpf_nf_ctx *ctx, bool self)
{
	struct bpf_dynptr packet;

	if (!bpf_dynptr_from_skb((struct __sk_buff *)ctx->skb, 0, &packet))
		count_packet(&packet, ctx->state->pf == NFPROTO_IPV6, self);
	return NF_ACCEPT;
}

SEC("netfilter")
int arrivals_in(struct bpf_nf_ctx *ctx)
{
	return count_skb(ctx, false);
}

SEC("netfilter")
int arrivals_out(struct bpf_nf_ctx *ctx)
{
	return count_skb(ctx, true);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";

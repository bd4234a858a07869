/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0) */
/*
 * What the programs need of the kernel's interface, written by hand: objects
 * built from it are the same on every machine, whatever headers that has. Values
 * are the kernel's (include/uapi/linux/bpf.h, in.h, if_ether.h, tcp.h, sctp.h).
 */
#ifndef WEIR_KERNEL_H
#define WEIR_KERNEL_H

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef int __s32;
typedef unsigned long long __u64;
typedef _Bool bool;
#define true 1
#define false 0
#define NULL ((void *)0)

#define SEC(name) __attribute__((section(name), used))
#define __inline inline __attribute__((always_inline))
#define __ksym __attribute__((section(".ksyms")))
#define __uint(name, val) int(*name)[val]
#define __type(name, val) typeof(val) *name

/* Maps, flags of their creation and of updates. */
#define BPF_MAP_TYPE_HASH 1
#define BPF_MAP_TYPE_ARRAY 2
#define BPF_MAP_TYPE_PERCPU_HASH 5
#define BPF_MAP_TYPE_PERCPU_ARRAY 6
#define BPF_MAP_TYPE_LRU_HASH 9
#define BPF_MAP_TYPE_LPM_TRIE 11
#define BPF_F_NO_PREALLOC 1
#define BPF_NOEXIST 1

#define EEXIST 17

/* Helpers, by their number in the kernel's list. */
static void *(*const bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static long (*const bpf_map_update_elem)(void *map, const void *key, const void *value,
					 __u64 flags) = (void *)2;
static __u64 (*const bpf_jiffies64)(void) = (void *)118;

/* Byte order: packets are big endian, as is the host of a bpfeb object. */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define be16(x) __builtin_bswap16(x)
#define be32(x) __builtin_bswap32(x)
#else
#define be16(x) (x)
#define be32(x) (x)
#endif

#define IPPROTO_HOPOPTS 0
#define IPPROTO_TCP 6
#define IPPROTO_UDP 17
#define IPPROTO_ROUTING 43
#define IPPROTO_FRAGMENT 44
#define IPPROTO_AH 51
#define IPPROTO_DSTOPTS 60
#define IPPROTO_SCTP 132

struct ipv4_header {
	__u8 version_ihl;
	__u8 tos;
	__u16 total_length;
	__u16 id;
	__u16 fragment;
	__u8 ttl;
	__u8 protocol;
	__u16 checksum;
	__u32 source;
	__u32 destination;
};

struct ipv6_header {
	__u32 version_class_flow;
	__u16 payload_length;
	__u8 next;
	__u8 hop_limit;
	__u32 source[4];
	__u32 destination[4];
};

/* The first 8 bytes of an IPv6 extension header; of the fragment header, all. */
struct ipv6_extension {
	__u8 next;
	__u8 length;
	__u16 fragment;
	__u32 id;
};

struct tcp_header {
	__u16 source;
	__u16 destination;
	__u32 sequence;
	__u32 acknowledgement;
	__u8 data_offset;
	__u8 flags;
	__u16 window;
	__u16 checksum;
	__u16 urgent;
};

#define TCP_FIN 0x01
#define TCP_SYN 0x02
#define TCP_RST 0x04
#define TCP_ACK 0x10

struct udp_header {
	__u16 source;
	__u16 destination;
	__u16 length;
	__u16 checksum;
};

/* SCTP's common header and, of its first chunk, all that an INIT must have. */
struct sctp_header {
	__u16 source;
	__u16 destination;
	__u32 verification_tag;
	__u32 checksum;
	__u8 chunk_type;
	__u8 chunk_flags;
	__u16 chunk_length;
	__u32 initiate_tag;
};

#define SCTP_INIT 1

#endif

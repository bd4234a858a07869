/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0) */
/*
 * The maps that programs and agents share, pinned and described by BTF. Their
 * keys and values are the contract: a change of them is a new layout version
 * (nodeagent/arrivals, layout).
 */
#ifndef WEIR_MAPS_H
#define WEIR_MAPS_H

/* Origins that need no prefix; user space gives out ids from ORIGIN_FIRST. */
#define ORIGIN_OTHER 0 /* in no known prefix */
#define ORIGIN_SELF 1  /* the node's own network namespace */

/* The service of the row into which tasks go that have found `arrivals` full. */
#define SERVICE_OVERFLOW 0

/* Addresses are IPv6 in network order, IPv4 ones as ::ffff:a.b.c.d. */
struct service_key {
	__u8 address[16];
	__u16 port; /* host order */
	__u8 protocol;
	__u8 pad;
};

struct service {
	__u32 id;
};

struct origin_key {
	__u32 prefixlen; /* of the 128 bits; an IPv4 prefix has 96 more than written */
	__u8 address[16];
};

struct origin {
	__u32 id;
};

struct arrival_key {
	__u32 service;
	__u32 origin;
};

struct arrival {
	__u64 tasks;
};

/*
 * One task. The token is TCP's initial sequence number or SCTP's initiate tag: a
 * port that is used again makes a new flow. A claim is no task but the right to
 * count one again after its time, the token then being when it was last seen.
 */
struct flow_key {
	__u8 source[16];
	__u8 destination[16];
	__u16 source_port; /* ports in host order */
	__u16 destination_port;
	__u8 protocol;
	__u8 claim;
	__u16 pad;
	__u32 token;
};

struct flow {
	__u64 seen; /* in ticks of the kernel, its cheapest clock */
};

/* Ticks of silence after which a flow is a new task. */
struct settings {
	__u64 udp_timeout;
	__u64 handshake_timeout; /* of the same sequence number or tag */
};

/* What went otherwise than one task, one count. */
struct stats {
	__u64 repeated;	    /* SYNs and INITs of a task that was counted before */
	__u64 fragments;    /* later fragments, which carry no ports: not looked at */
	__u64 malformed;    /* headers cut short or contradicting themselves */
	__u64 untracked;    /* counted, but flows took no entry: may count again */
	__u64 origins_full; /* counted for the service, but origin lost: arrivals full */
	__u64 overflowed;   /* counted in the overflow row alone: arrivals full */
};

enum name_kind {
	NAME_SERVICE = 0,
	NAME_ORIGIN = 1,
};

/* Which id means what: kept by user space beside the counts, for its next start. */
struct name_key {
	enum name_kind kind;
	__u32 id;
};

struct name {
	__u64 retired; /* Unix time in s since when nothing bears it; 0: in use */
	char text[192];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct service_key);
	__type(value, struct service);
} services SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, 16384);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct origin_key);
	__type(value, struct origin);
} origins SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct arrival_key);
	__type(value, struct arrival);
} arrivals SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 131072);
	__type(key, struct flow_key);
	__type(value, struct flow);
} flows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct settings);
} settings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct stats);
} stats SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 32768);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct name_key);
	__type(value, struct name);
} names SEC(".maps");

#endif

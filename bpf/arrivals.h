/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0) */
/*
 * Counting tasks as they arrive: the path of one packet.
 *
 * A task is a TCP connection (its first SYN), a UDP flow (its first packet) or an
 * SCTP association (its INIT) to an address, port and protocol in `services`.
 * Whichever program meets the packet first, on whichever CPU, device or hook,
 * counts it: `flows` admits each task once, so that retransmissions, a second
 * hook on the packet's way and two versions of a program side by side while an
 * agent is upgraded change nothing.
 *
 * The including file first defines packet_t and packet_at().
 */
#ifndef WEIR_ARRIVALS_H
#define WEIR_ARRIVALS_H

#include "maps.h"

/* IPv6 extension headers that are walked before a packet counts as malformed. */
#define MAX_EXTENSIONS 8

/*
 * Atomic although per CPU: LOCAL_OUT runs in process context, where a softirq on
 * the same CPU may count between load and store.
 */
#define count(field) __sync_fetch_and_add(&(field), 1)

#define count_stat(field)                                                 \
	({                                                                \
		__u32 zero = 0;                                           \
		struct stats *all = bpf_map_lookup_elem(&stats, &zero);   \
		if (all)                                                  \
			count(all->field);                                \
	})

static __inline bool count_row(struct arrival_key *key)
{
	struct arrival *row = bpf_map_lookup_elem(&arrivals, key);

	if (!row) {
		struct arrival none = {};

		/* Insert nothing, look again, add: exact whoever inserts first. */
		bpf_map_update_elem(&arrivals, key, &none, BPF_NOEXIST);
		row = bpf_map_lookup_elem(&arrivals, key);
		if (!row)
			return false;
	}
	count(row->tasks);
	return true;
}

/* Adds one task. User space has made the rows {service, OTHER} and OVERFLOW. */
static __inline void count_task(__u32 service, __u32 origin)
{
	struct arrival_key key = {.service = service, .origin = origin};

	if (count_row(&key))
		return;
	key.origin = ORIGIN_OTHER;
	if (count_row(&key)) {
		count_stat(origins_full);
		return;
	}
	key.service = SERVICE_OVERFLOW;
	count_row(&key);
	count_stat(overflowed);
}

static __inline __u64 flow_lifetime(__u8 protocol)
{
	__u32 zero = 0;
	struct settings *set;

	set = bpf_map_lookup_elem(&settings, &zero);
	if (!set)
		return 0;
	return protocol == IPPROTO_UDP ? set->udp_timeout : set->handshake_timeout;
}

/*
 * Says whether the flow is a new task, to one asker only. A flow past its time is
 * a new task for the one that inserts the claim on its last appearance.
 */
static __inline bool first_of_flow(struct flow_key *key)
{
	struct flow fresh = {.seen = bpf_jiffies64()};
	struct flow *known = NULL;
	__u64 seen;
	long err;

	/* Of UDP most packets are later ones, of SYNs most are first ones. */
	if (key->protocol == IPPROTO_UDP)
		known = bpf_map_lookup_elem(&flows, key);
	if (!known) {
		err = bpf_map_update_elem(&flows, key, &fresh, BPF_NOEXIST);
		if (err && err != -EEXIST)
			count_stat(untracked);
		if (err != -EEXIST)
			return true;
		known = bpf_map_lookup_elem(&flows, key);
		if (!known)
			return false;
	}
	seen = known->seen;
	/* Signed: another CPU may have seen it after this one took the time. */
	if ((long long)(fresh.seen - seen) < (long long)flow_lifetime(key->protocol)) {
		if (seen != fresh.seen) /* spares the cache line */
			known->seen = fresh.seen;
		return false;
	}
	key->claim = 1;
	key->token = seen;
	if (bpf_map_update_elem(&flows, key, &fresh, BPF_NOEXIST) == -EEXIST)
		return false;
	known->seen = fresh.seen;
	return true;
}

static __inline __u32 origin_of(const __u8 *source)
{
	struct origin_key key = {.prefixlen = 128};
	struct origin *origin;

	__builtin_memcpy(key.address, source, 16);
	origin = bpf_map_lookup_elem(&origins, &key);
	return origin ? origin->id : ORIGIN_OTHER;
}

static __inline void arrive(struct flow_key *flow, bool self)
{
	struct service_key key = {.port = flow->destination_port, .protocol = flow->protocol};
	struct service *service;

	__builtin_memcpy(key.address, flow->destination, 16);
	service = bpf_map_lookup_elem(&services, &key);
	if (!service)
		return;
	if (!first_of_flow(flow)) {
		if (flow->protocol != IPPROTO_UDP)
			count_stat(repeated);
		return;
	}
	count_task(service->id, self ? ORIGIN_SELF : origin_of(flow->source));
}

enum verdict {
	PASS,	   /* starts no task */
	TASK,	   /* may be the first packet of one: look at services and flows */
	LATER,	   /* a later fragment */
	MALFORMED,
};

/* Reads TCP's part of the flow. IPVS schedules a SYN without RST; so do these. */
static __inline enum verdict read_tcp(packet_t *packet, __u32 offset, struct flow_key *flow)
{
	struct tcp_header buffer;
	const struct tcp_header *tcp = packet_at(packet, offset, &buffer, sizeof(buffer));

	if (!tcp)
		return MALFORMED;
	if ((tcp->flags & (TCP_SYN | TCP_ACK)) != TCP_SYN)
		return PASS;
	if (tcp->flags & (TCP_RST | TCP_FIN) || tcp->data_offset >> 4 < 5)
		return MALFORMED;
	flow->source_port = be16(tcp->source);
	flow->destination_port = be16(tcp->destination);
	flow->token = tcp->sequence;
	return TASK;
}

static __inline enum verdict read_udp(packet_t *packet, __u32 offset, struct flow_key *flow)
{
	struct udp_header buffer;
	const struct udp_header *udp = packet_at(packet, offset, &buffer, sizeof(buffer));

	if (!udp || be16(udp->length) - 1U < sizeof(buffer) - 1)
		return MALFORMED; /* a length of 0 is a jumbogram's */
	flow->source_port = be16(udp->source);
	flow->destination_port = be16(udp->destination);
	return TASK;
}

/* Only an INIT opens an association, and it travels alone (RFC 9260, 3.3.2). */
static __inline enum verdict read_sctp(packet_t *packet, __u32 offset, struct flow_key *flow)
{
	struct sctp_header buffer;
	const struct sctp_header *sctp = packet_at(packet, offset, &buffer, sizeof(buffer));

	if (!sctp)
		return PASS; /* common header and a short chunk: a COOKIE-ACK */
	if (sctp->chunk_type != SCTP_INIT)
		return PASS;
	if (sctp->verification_tag || !sctp->initiate_tag)
		return MALFORMED;
	flow->source_port = be16(sctp->source);
	flow->destination_port = be16(sctp->destination);
	flow->token = sctp->initiate_tag;
	return TASK;
}

static __inline enum verdict read_transport(packet_t *packet, __u32 offset, __u8 protocol,
					    struct flow_key *flow)
{
	flow->protocol = protocol;
	if (protocol == IPPROTO_TCP)
		return read_tcp(packet, offset, flow);
	if (protocol == IPPROTO_UDP)
		return read_udp(packet, offset, flow);
	if (protocol == IPPROTO_SCTP)
		return read_sctp(packet, offset, flow);
	return PASS;
}

/* Writes an IPv4 address as ::ffff:a.b.c.d over zeros. */
static __inline void map_address(__u8 *to, __u32 address)
{
	to[10] = to[11] = 0xff;
	__builtin_memcpy(to + 12, &address, 4);
}

static __inline enum verdict read_ipv4(packet_t *packet, struct flow_key *flow)
{
	struct ipv4_header buffer;
	const struct ipv4_header *ip = packet_at(packet, 0, &buffer, sizeof(buffer));
	__u32 length;

	if (!ip || ip->version_ihl >> 4 != 4)
		return MALFORMED;
	length = (ip->version_ihl & 0x0f) * 4;
	if (length < sizeof(buffer))
		return MALFORMED;
	if (ip->fragment & be16(0x1fff))
		return LATER;
	map_address(flow->source, ip->source);
	map_address(flow->destination, ip->destination);
	return read_transport(packet, length, ip->protocol, flow);
}

static __inline enum verdict read_ipv6(packet_t *packet, struct flow_key *flow)
{
	struct ipv6_header buffer;
	struct ipv6_extension room;
	const struct ipv6_header *ip = packet_at(packet, 0, &buffer, sizeof(buffer));
	__u32 offset = sizeof(buffer);
	__u8 next;

	if (!ip || (be32(ip->version_class_flow) >> 28) != 6)
		return MALFORMED;
	next = ip->next;
	__builtin_memcpy(flow->source, ip->source, 16);
	__builtin_memcpy(flow->destination, ip->destination, 16);
	for (int i = 0; i < MAX_EXTENSIONS; i++) {
		const struct ipv6_extension *extension;

		if (next != IPPROTO_HOPOPTS && next != IPPROTO_ROUTING && next != IPPROTO_DSTOPTS &&
		    next != IPPROTO_FRAGMENT && next != IPPROTO_AH)
			return read_transport(packet, offset, next, flow);
		extension = packet_at(packet, offset, &room, sizeof(room));
		if (!extension)
			return MALFORMED;
		if (next == IPPROTO_FRAGMENT) {
			if (extension->fragment & be16(0xfff8))
				return LATER;
			offset += sizeof(room);
		} else if (next == IPPROTO_AH) {
			offset += (extension->length + 2) * 4;
		} else {
			offset += (extension->length + 1) * 8;
		}
		next = extension->next;
	}
	return MALFORMED;
}

/* Counts the packet if it starts a task. self: it comes from this namespace. */
static __inline void count_packet(packet_t *packet, bool ipv6, bool self)
{
	struct flow_key flow = {};
	enum verdict verdict = ipv6 ? read_ipv6(packet, &flow) : read_ipv4(packet, &flow);

	if (verdict == TASK)
		arrive(&flow, self);
	else if (verdict == MALFORMED)
		count_stat(malformed);
	else if (verdict == LATER)
		count_stat(fragments);
}

#endif

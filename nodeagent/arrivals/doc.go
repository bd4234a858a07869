// SPDX-License-Identifier: Apache-2.0

// Package arrivals counts the tasks that reach a node for each service, in the
// kernel, by the programs of package bpf (design part 7). It attaches them in the
// best way that the kernel has, keeps maps and links pinned so that counting goes
// on without the agent, and reads cumulative totals, of which Delta makes what
// arrived in between.
//
// A task is a TCP connection (its first SYN), a UDP flow (its first packet) or an
// SCTP association (its INIT). A TCP connection that uses a tuple again is told
// from a retransmitted SYN by its initial sequence number, and is a new task. IPVS
// agrees where it schedules anew: with net.ipv4.vs.conn_reuse_mode=1 and the old
// connection in TIME_WAIT or CLOSE. With conn_reuse_mode=0, or while it thinks
// the old connection alive, IPVS sends the new one the old way and does not
// count it. A UDP flow is a new task after IPVS's own timeout of silence from the
// client; IPVS also renews on replies, which the hooks do not see.
package arrivals

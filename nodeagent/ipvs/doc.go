// SPDX-License-Identifier: Apache-2.0

// Package ipvs holds the node's virtual servers: it reads the kernel's table,
// decides what differs from what is wanted, and writes the difference in one
// batch. Deciding (Plan, Apportion, Choose) is pure; Table is the edge, and the
// only place in the product that speaks netlink to IPVS.
//
// Reads go through moby/ipvs. Every write goes through our own batched writer,
// services too: a virtual server without destinations refuses its clients, so
// each is created in the same send as its destinations.
package ipvs

// SPDX-License-Identifier: Apache-2.0

// Package nodeagent is the agent of one node. Each period it counts what
// arrived for each service, measures what the node and its pods consume and
// tells the optimizer; it takes the optimizer's ratios, smooths them and writes
// them into IPVS.
//
// One goroutine owns the kernel's tables (loop.go). Redis is spoken to by two
// others (push.go, view.go), so that a slow or absent Redis holds nothing up:
// without the optimizer the last weights stay, and past the stale limit they
// drift to equal ones.
package nodeagent

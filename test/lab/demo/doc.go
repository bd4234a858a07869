// SPDX-License-Identifier: Apache-2.0

// Package demo runs Weir's main job in the lab and tells what came of it: the
// same load on plain IPVS round robin, as kube-proxy would set it up, then under
// Weir with the scheduler left to it, then under Weir with wrr. The kernel, IPVS,
// Redis, the agents, the optimizer and the traffic are real; only the network and
// the pods' work (waiting) belong to the lab.
package demo

// SPDX-License-Identifier: Apache-2.0

// Package cluster runs a real Kubernetes control plane for tests: etcd, API
// server, controller manager and scheduler, and kwok in the place of kubelets, all
// on free loopback ports. Each of them can be stopped, killed, paused and started
// again; a Proxy before the API server plays its faults; the audit log tells who
// asked for what. Nothing outlives the process that started it.
package cluster

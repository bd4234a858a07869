// SPDX-License-Identifier: Apache-2.0

// Package controlplane builds, once, the real Kubernetes control plane that the
// cluster tests run: etcd, kube-apiserver, kube-controller-manager,
// kube-scheduler and kwok, at pinned versions, from the Go module proxy. What it
// builds lies in the user's cache, under a key of all that goes into it.
package controlplane

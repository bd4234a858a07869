// SPDX-License-Identifier: Apache-2.0

// Package usage measures what a node and its pods consume: the node from /proc
// and /sys, pods from their cgroup (version 2), and, for resources that only the
// pod knows, such as busy workers, from the pod's own Prometheus page. What
// can't be measured is absent from a reading, never zero.
package usage

// SPDX-License-Identifier: Apache-2.0

package ipvs

import "os"

// expireNoDestination is the sysctl that makes the kernel, when a destination is
// removed, forget the connections of all removed destinations.
const expireNoDestination = "/proc/sys/net/ipv4/vs/expire_nodest_conn"

// removesFlows says whether ops take destinations away from UDP flows.
func removesFlows(ops []Op) bool {
	for _, o := range ops {
		if o.Service.Protocol == UDP && isRemoval(o.Kind) {
			return true
		}
	}
	return false
}

// expireFlows makes the removals until the returned function is called forget
// their connections: a flow to a dead pod would be dropped as long as its client
// sends. The setting may not stay on, or whoever flushes the table resets what
// lives. The kernel acts when the removal is made, not when its work runs.
func (t *Table) expireFlows() (end func()) {
	if err := os.WriteFile(expireNoDestination, []byte("1"), 0); err != nil {
		t.logger.Warn("flows of removed udp destinations are not expired", "err", err)
		return func() {}
	}
	return func() {
		if err := os.WriteFile(expireNoDestination, []byte("0"), 0); err != nil {
			t.logger.Error("expire_nodest_conn stays on: a flushed table resets connections", "err", err)
		}
	}
}

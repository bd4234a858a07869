// SPDX-License-Identifier: Apache-2.0

package ipvs

// Service flags of the kernel, include/uapi/linux/ip_vs.h.
const (
	flagPersistent uint32 = 0x1  // affinity
	flagHashed     uint32 = 0x2  // kernel bookkeeping; masked before comparing
	flagSourcePort uint32 = 0x10 // SCHED2: mh hashes the source port as well
)

// flags returns the flags that a service of ours has in the kernel. Without the
// source port mh would send all of a client's connections to one pod.
func (s Service) flags() uint32 {
	var f uint32
	if s.Affinity > 0 {
		f |= flagPersistent
	}
	if s.Scheduler == "mh" {
		f |= flagSourcePort
	}
	return f
}

// netmask returns the granularity of affinity: single addresses. The kernel
// reads it as a mask for IPv4 and as a prefix length for IPv6, and refuses an
// IPv6 service without one.
func (s Service) netmask() uint32 {
	if s.Address.Is6() {
		return 128
	}
	return 0xffffffff
}

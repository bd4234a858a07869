// SPDX-License-Identifier: Apache-2.0

package host

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const sysctlRoot = "/proc/sys"

// setting is a sysctl and the value that it has to have.
type setting struct {
	path  string // below /proc/sys
	value string
}

func (s setting) name() string { return strings.ReplaceAll(s.path, "/", ".") }

// settings returns the sysctls in the order of writing: a change of ip_forward
// puts others of net.ipv4.conf back to their defaults.
func settings(ipv6 bool) []setting {
	all := []setting{
		{"net/ipv4/ip_forward", "1"},
		{"net/ipv4/conf/all/arp_ignore", "1"},   // answer for an address only on its own device
		{"net/ipv4/conf/all/arp_announce", "2"}, // never announce a service address
		{"net/ipv4/vs/conntrack", "1"},          // masquerading needs connections that conntrack knows
		{"net/ipv4/vs/expire_nodest_conn", "0"}, // a flushed table must not reset what lives
		{"net/ipv4/vs/expire_quiescent_template", "1"},
		{"net/ipv4/vs/conn_reuse_mode", "1"}, // a reused source port is balanced anew; kernel ≥ 5.9
	}
	if ipv6 {
		// Only with IPv6 services: forwarding makes a node deaf to router
		// advertisements on devices with accept_ra=1.
		all = append(all, setting{"net/ipv6/conf/all/forwarding", "1"})
	}
	return all
}

// apply writes what differs below root and returns lines like
// "net.ipv4.ip_forward: 0 → 1".
func apply(root string, all []setting) (changed []string, err error) {
	for _, s := range all {
		path := filepath.Join(root, s.path)
		content, err := os.ReadFile(path)
		if err != nil {
			return changed, fmt.Errorf("read sysctl %s: %w", s.name(), err)
		}
		before := strings.TrimSpace(string(content))
		if before == s.value {
			continue
		}
		if err := os.WriteFile(path, []byte(s.value), 0); err != nil {
			return changed, fmt.Errorf("set sysctl %s to %s: %w", s.name(), s.value, err)
		}
		changed = append(changed, fmt.Sprintf("%s: %s → %s", s.name(), before, s.value))
	}
	return changed, nil
}

// SPDX-License-Identifier: Apache-2.0

package host

import (
	"fmt"
	"net/netip"
	"strings"
)

// Conflict is an address that cannot be a virtual server's.
type Conflict struct {
	Address netip.Addr
	Device  string // that holds it; empty when no device may
}

func (c Conflict) String() string {
	if c.Device == "" {
		return fmt.Sprintf("service address %s is not a global unicast address", c.Address)
	}
	return fmt.Sprintf("service address %s is held by device %s of this node", c.Address, c.Device)
}

// Conflicts is the error that names the addresses which were left out.
type Conflicts []Conflict

func (c Conflicts) Error() string {
	lines := make([]string, len(c))
	for i := range c {
		lines[i] = c[i].String()
	}
	return strings.Join(lines, "; ")
}

// SPDX-License-Identifier: Apache-2.0

package load

import (
	"net/netip"
	"sync"
)

// ports hands out source ports in ascending order, for every source address on
// its own, so that a port is used again only when all others were. The kernel's
// own choice repeats far sooner, and a repeated port may be taken for the old
// connection by IPVS and by those who count flows.
type ports struct {
	first uint16

	mu     sync.Mutex
	next   map[portSpace]uint16
	used   map[portSpace]int
	reused int
}

// portSpace is where a port number means something.
type portSpace struct {
	source   netip.Addr
	protocol string
}

func newPorts(first uint16) *ports {
	return &ports{first: first, next: map[portSpace]uint16{}, used: map[portSpace]int{}}
}

func (p *ports) take(source netip.Addr, protocol string) uint16 {
	p.mu.Lock()
	defer p.mu.Unlock()
	space := portSpace{source, protocol}
	port := max(p.next[space], p.first)
	p.next[space] = port + 1 // after the last port it is 0, and so first again
	if p.used[space]++; p.used[space] > lastPort+1-int(p.first) {
		p.reused++
	}
	return port
}

// state returns how often a port was taken a second time, and the first port that
// no address has used yet: 0 if there is none.
func (p *ports) state() (reused int, next uint16) {
	p.mu.Lock()
	defer p.mu.Unlock()
	next = p.first
	for space, n := range p.next {
		if p.used[space] > lastPort-int(p.first) {
			return p.reused, 0
		}
		next = max(next, n)
	}
	return p.reused, next
}

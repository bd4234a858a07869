// SPDX-License-Identifier: Apache-2.0

package model

// pairs is a set of (service, node): bits where they are few beside the members, else a map.
type pairs struct {
	nodes int64
	bits  []uint64
	set   map[int64]struct{}
}

// newPairs is an empty set for so many services and nodes, of about `members` members.
func newPairs(services, nodes, members int) *pairs {
	p := &pairs{nodes: int64(nodes)}
	const bitsPerMember = 512 // what an entry of a map takes
	if int64(services)*int64(nodes) <= bitsPerMember*int64(members+1) {
		p.bits = make([]uint64, (int64(services)*int64(nodes)+63)/64)
		return p
	}
	p.set = make(map[int64]struct{}, members)
	return p
}

// add says whether the pair is new.
func (p *pairs) add(service, node int32) bool {
	i := int64(service)*p.nodes + int64(node)
	if p.bits != nil {
		word, bit := i/64, uint64(1)<<(i%64)
		added := p.bits[word]&bit == 0
		p.bits[word] |= bit
		return added
	}
	_, twice := p.set[i]
	p.set[i] = struct{}{}
	return !twice
}

// SPDX-License-Identifier: Apache-2.0

package arrivals

import (
	"encoding/binary"
	"net/netip"
)

// packet is one network packet to be built byte by byte, with whatever is wrong
// with it.
type packet struct {
	from, to   netip.AddrPort
	protocol   uint8
	flags      uint8  // TCP
	token      uint32 // TCP's sequence, SCTP's initiate tag
	tag        uint32 // SCTP's verification tag
	chunk      uint8  // SCTP's first chunk
	options    int    // bytes of IPv4 options, a multiple of 4
	fragment   uint16 // offset in units of 8 bytes
	more       bool   // more fragments follow
	extensions []uint8
	payload    int
	cut        int // bytes cut off the end
}

const (
	flagFIN = 0x01
	flagSYN = 0x02
	flagRST = 0x04
	flagACK = 0x10
	flagECE = 0x40
	flagCWR = 0x80

	chunkInit = 1
)

// bytes are the packet from its network header.
func (p packet) bytes() []byte {
	transport := p.transport()
	var raw []byte
	if p.to.Addr().Is4() {
		raw = append(p.ipv4(len(transport)), transport...)
	} else {
		raw = append(p.ipv6(len(transport)), transport...)
	}
	return raw[:max(0, len(raw)-p.cut)]
}

func (p packet) ipv4(length int) []byte {
	header := make([]byte, 20+p.options)
	header[0] = 0x40 | byte(len(header)/4)
	binary.BigEndian.PutUint16(header[2:], uint16(len(header)+length))
	binary.BigEndian.PutUint16(header[4:], 7) // the same id: fragments of one
	binary.BigEndian.PutUint16(header[6:], p.fragment|flag(p.more)<<13)
	header[8], header[9] = 64, p.protocol
	copy(header[12:], p.from.Addr().AsSlice())
	copy(header[16:], p.to.Addr().AsSlice())
	for i := 20; i < len(header); i++ {
		header[i] = 1 // no operation
	}
	binary.BigEndian.PutUint16(header[10:], checksum(header, 0))
	return header
}

func (p packet) ipv6(length int) []byte {
	var chain []byte
	next := p.protocol
	for i := len(p.extensions) - 1; i >= 0; i-- {
		chain = append(p.extension(p.extensions[i], next), chain...)
		next = p.extensions[i]
	}
	header := make([]byte, 40)
	header[0] = 0x60
	binary.BigEndian.PutUint16(header[4:], uint16(len(chain)+length))
	header[6], header[7] = next, 64
	copy(header[8:], p.from.Addr().AsSlice())
	copy(header[24:], p.to.Addr().AsSlice())
	return append(header, chain...)
}

// extension headers are 8 bytes, but authentication's is 12 and destination
// options are 16, so that lengths matter.
func (p packet) extension(kind, next uint8) []byte {
	switch kind {
	case 44:
		e := []byte{next, 0, 0, 0, 0, 0, 0, 7}
		binary.BigEndian.PutUint16(e[2:], p.fragment<<3|flag(p.more))
		return e
	case 51:
		return append([]byte{next, 1}, make([]byte, 10)...)
	case 60:
		return append([]byte{next, 1, 1, 12}, make([]byte, 12)...)
	default: // options padded out
		return []byte{next, 0, 1, 4, 0, 0, 0, 0}
	}
}

func (p packet) transport() []byte {
	var b []byte
	switch p.protocol {
	case 6:
		b = make([]byte, 20+p.payload)
		binary.BigEndian.PutUint32(b[4:], p.token)
		b[12], b[13] = 5<<4, p.flags
	case 17:
		b = make([]byte, 8+p.payload)
		binary.BigEndian.PutUint16(b[4:], uint16(len(b)))
	case 132:
		b = make([]byte, 32+p.payload)
		binary.BigEndian.PutUint32(b[4:], p.tag)
		b[12] = p.chunk
		binary.BigEndian.PutUint16(b[14:], 20)
		binary.BigEndian.PutUint32(b[16:], p.token)
	default:
		return make([]byte, 8+p.payload)
	}
	binary.BigEndian.PutUint16(b, p.from.Port())
	binary.BigEndian.PutUint16(b[2:], p.to.Port())
	switch p.protocol {
	case 6:
		binary.BigEndian.PutUint16(b[16:], checksum(b, p.pseudo(len(b))))
	case 17:
		binary.BigEndian.PutUint16(b[6:], checksum(b, p.pseudo(len(b))))
	}
	return b
}

// pseudo is the sum of the pseudo header.
func (p packet) pseudo(length int) uint32 {
	sum := uint32(p.protocol) + uint32(length)
	for _, a := range [][]byte{p.from.Addr().AsSlice(), p.to.Addr().AsSlice()} {
		for i := 0; i < len(a); i += 2 {
			sum += uint32(binary.BigEndian.Uint16(a[i:]))
		}
	}
	return sum
}

func checksum(b []byte, sum uint32) uint16 {
	for i := 0; i+1 < len(b); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	if len(b)%2 == 1 {
		sum += uint32(b[len(b)-1]) << 8
	}
	for sum>>16 != 0 {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}

func flag(set bool) uint16 {
	if set {
		return 1
	}
	return 0
}

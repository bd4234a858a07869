// SPDX-License-Identifier: Apache-2.0

package host

import (
	"cmp"
	"encoding/binary"
	"net/netip"
	"strings"

	"github.com/edgeweir/weir/nodeagent/ipvs"
)

// element is a set element as the kernel has it: the key in network byte order,
// each part padded to four bytes.
type element struct {
	key string
	end bool // the first key after an interval
}

func (e element) compare(o element) int {
	switch {
	case e.key != o.key:
		return cmp.Compare(e.key, o.key)
	case e.end == o.end:
		return 0
	case e.end:
		return -1
	}
	return 1
}

// vipElement is address . protocol . port.
func vipElement(k ipvs.Key) element {
	b := append(k.Address.AsSlice(), byte(k.Protocol), 0, 0, 0)
	return element{key: string(append(binary.BigEndian.AppendUint16(b, k.Port), 0, 0))}
}

// pairElement is the address twice: source . destination of a hairpin.
func pairElement(a netip.Addr) element {
	return element{key: string(append(a.AsSlice(), a.AsSlice()...))}
}

// rangeElements are the two ends of an interval. One that reaches the last
// address of its family is open.
func rangeElements(r addressRange) []element {
	elements := []element{{key: string(r.first.AsSlice())}}
	if next := r.last.Next(); next.IsValid() {
		elements = append(elements, element{key: string(next.AsSlice()), end: true})
	}
	return elements
}

func isZero(key string) bool { return strings.Trim(key, "\x00") == "" }

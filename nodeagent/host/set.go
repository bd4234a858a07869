// SPDX-License-Identifier: Apache-2.0

package host

import (
	"encoding/binary"
	"fmt"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// datatype is one of nft's types, src/datatype.h: nft prints keys by it.
type datatype struct{ number, length uint32 }

var (
	ipv4Address = datatype{7, 4}
	ipv6Address = datatype{8, 16}
	inetProto   = datatype{12, 1}
	inetService = datatype{13, 2}
)

// set is a set of the table. Its key has one or several parts.
type set struct {
	name     string
	interval bool
	key      []datatype
}

func sets() []set {
	return []set{
		{name: "addresses4", key: []datatype{ipv4Address}},
		{name: "addresses6", key: []datatype{ipv6Address}},
		{name: "hairpin4", key: []datatype{ipv4Address, ipv4Address}},
		{name: "hairpin6", key: []datatype{ipv6Address, ipv6Address}},
		{name: "pods4", key: []datatype{ipv4Address}, interval: true},
		{name: "pods6", key: []datatype{ipv6Address}, interval: true},
		{name: "vips4", key: []datatype{ipv4Address, inetProto, inetService}},
		{name: "vips6", key: []datatype{ipv6Address, inetProto, inetService}},
	}
}

// create returns the command that makes the set; id is its number within the
// transaction.
func (s set) create(id uint32) netlink.Message {
	var flags, number, length uint32
	var parts []field
	for _, d := range s.key {
		number = number<<6 | d.number
		length += (d.length + 3) &^ 3
		parts = append(parts, nest(unix.NFTA_LIST_ELEM, u32(1, d.length))) // NFTA_SET_FIELD_LEN
	}
	fields := []field{
		text(unix.NFTA_SET_TABLE, tableName), text(unix.NFTA_SET_NAME, s.name), u32(unix.NFTA_SET_ID, id),
		u32(unix.NFTA_SET_KEY_TYPE, number), u32(unix.NFTA_SET_KEY_LEN, length),
	}
	if len(parts) > 1 {
		flags |= 0x80                                                        // NFT_SET_CONCAT
		fields = append(fields, nest(unix.NFTA_SET_DESC, nest(2, parts...))) // NFTA_SET_DESC_CONCAT
	}
	if s.interval {
		flags |= unix.NFT_SET_INTERVAL
	}
	// For nft: userdata 0 of 4 bytes says that keys are in network byte order (2).
	order := binary.NativeEndian.AppendUint32([]byte{0, 4}, 2)
	fields = append(fields, u32(unix.NFTA_SET_FLAGS, flags), field{Type: unix.NFTA_SET_USERDATA, Data: order})
	return command(unix.NFT_MSG_NEWSET, netlink.Create, fields...)
}

// elementsPerMessage keeps the list attribute below its 64 KiB.
const elementsPerMessage = 500

// change returns commands of kind NFT_MSG_NEWSETELEM or NFT_MSG_DELSETELEM.
func (s set) change(kind uint16, elements []element) []netlink.Message {
	var commands []netlink.Message
	for start := 0; start < len(elements); start += elementsPerMessage {
		var list []field
		for _, e := range elements[start:min(start+elementsPerMessage, len(elements))] {
			value := nest(unix.NFTA_SET_ELEM_KEY, field{Type: unix.NFTA_DATA_VALUE, Data: []byte(e.key)})
			if e.end {
				list = append(list, nest(unix.NFTA_LIST_ELEM, value, u32(unix.NFTA_SET_ELEM_FLAGS, unix.NFT_SET_ELEM_INTERVAL_END)))
			} else {
				list = append(list, nest(unix.NFTA_LIST_ELEM, value))
			}
		}
		commands = append(commands, command(kind, netlink.Create, text(unix.NFTA_SET_ELEM_LIST_TABLE, tableName),
			text(unix.NFTA_SET_ELEM_LIST_SET, s.name), nest(unix.NFTA_SET_ELEM_LIST_ELEMENTS, list...)))
	}
	return commands
}

// empty returns the command that deletes all elements.
func (s set) empty() netlink.Message {
	return command(unix.NFT_MSG_DELSETELEM, 0, text(unix.NFTA_SET_ELEM_LIST_TABLE, tableName),
		text(unix.NFTA_SET_ELEM_LIST_SET, s.name))
}

// read returns the elements that the kernel has, without those it made itself.
func (s set) read(n *nft) ([]element, error) {
	answers, err := n.list(unix.NFT_MSG_GETSETELEM, text(unix.NFTA_SET_ELEM_LIST_TABLE, tableName),
		text(unix.NFTA_SET_ELEM_LIST_SET, s.name))
	if err != nil {
		return nil, fmt.Errorf("list set %s: %w", s.name, err)
	}
	var elements []element
	for _, a := range answers {
		list, err := netlink.UnmarshalAttributes(find(a, unix.NFTA_SET_ELEM_LIST_ELEMENTS))
		if err != nil {
			return nil, fmt.Errorf("read set %s: %w", s.name, err)
		}
		for _, l := range list {
			e, err := parseElement(l.Data)
			if err != nil {
				return nil, fmt.Errorf("read element of set %s: %w", s.name, err)
			}
			if !e.end || !isZero(e.key) { // the end of nothing: start of the complement
				elements = append(elements, e)
			}
		}
	}
	return elements, nil
}

func parseElement(data []byte) (element, error) {
	fields, err := netlink.UnmarshalAttributes(data)
	if err != nil {
		return element{}, err
	}
	value, err := netlink.UnmarshalAttributes(find(fields, unix.NFTA_SET_ELEM_KEY))
	if err != nil {
		return element{}, err
	}
	e := element{key: string(find(value, unix.NFTA_DATA_VALUE))}
	if flags := find(fields, unix.NFTA_SET_ELEM_FLAGS); len(flags) == 4 {
		e.end = binary.BigEndian.Uint32(flags)&unix.NFT_SET_ELEM_INTERVAL_END != 0
	}
	return e, nil
}

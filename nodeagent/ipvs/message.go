// SPDX-License-Identifier: Apache-2.0

package ipvs

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// Commands and attributes of generic netlink family IPVS, version 1,
// include/uapi/linux/ip_vs.h.
const (
	cmdNewService = 1
	cmdSetService = 2
	cmdDelService = 3
	cmdGetService = 4
	cmdNewDest    = 5
	cmdSetDest    = 6
	cmdDelDest    = 7

	attrService = 1
	attrDest    = 2

	svcFamily    = 1
	svcProtocol  = 2
	svcAddress   = 3
	svcPort      = 4
	svcScheduler = 6
	svcFlags     = 7
	svcTimeout   = 8
	svcNetmask   = 9

	destAddress    = 1
	destPort       = 2
	destMethod     = 3
	destWeight     = 4
	destUpperLimit = 5
	destLowerLimit = 6
	destFamily     = 11
)

var commands = map[Kind]uint8{
	CreateService:     cmdNewService,
	UpdateService:     cmdSetService,
	RemoveService:     cmdDelService,
	AddDestination:    cmdNewDest,
	UpdateDestination: cmdSetDest,
	RemoveDestination: cmdDelDest,
}

// encode returns the netlink message of o: header, generic header, attributes.
// The kernel takes no part of a service or destination: a write states all of
// it.
func encode(o Op, family uint16, seq uint32, flags netlink.HeaderFlags) ([]byte, error) {
	command, known := commands[o.Kind]
	if !known {
		return nil, fmt.Errorf("encode %s", o.Kind)
	}
	if o.Destination.Weight > MaxWeight {
		return nil, fmt.Errorf("encode %s: weight is above %d", o, MaxWeight)
	}
	whole := o.Kind == CreateService || o.Kind == UpdateService
	e := netlink.NewAttributeEncoder()
	e.Nested(attrService, func(e *netlink.AttributeEncoder) error {
		encodeService(e, o.Service, whole)
		return nil
	})
	if command >= cmdNewDest {
		e.Nested(attrDest, func(e *netlink.AttributeEncoder) error {
			encodeDestination(e, o.Destination)
			return nil
		})
	}
	return envelop(e, command, family, seq, flags)
}

// encodeGet returns the message that asks for one service.
func encodeGet(k Key, family uint16, seq uint32, flags netlink.HeaderFlags) ([]byte, error) {
	e := netlink.NewAttributeEncoder()
	e.Nested(attrService, func(e *netlink.AttributeEncoder) error {
		encodeService(e, Service{Address: k.Address, Port: k.Port, Protocol: k.Protocol}, false)
		return nil
	})
	return envelop(e, cmdGetService, family, seq, flags)
}

func envelop(e *netlink.AttributeEncoder, command uint8, family uint16, seq uint32, flags netlink.HeaderFlags) ([]byte, error) {
	attributes, err := e.Encode()
	if err != nil {
		return nil, fmt.Errorf("encode attributes: %w", err)
	}
	data := append([]byte{command, 1, 0, 0}, attributes...)
	m := netlink.Message{
		Header: netlink.Header{
			Length:   uint32(unix.NLMSG_HDRLEN + len(data)),
			Type:     netlink.HeaderType(family),
			Flags:    netlink.Request | flags,
			Sequence: seq,
		},
		Data: data,
	}
	return m.MarshalBinary()
}

func encodeService(e *netlink.AttributeEncoder, s Service, whole bool) {
	e.Uint16(svcFamily, addressFamily(s.Address))
	e.Uint16(svcProtocol, uint16(s.Protocol))
	e.Bytes(svcAddress, s.Address.AsSlice())
	e.Bytes(svcPort, binary.BigEndian.AppendUint16(nil, s.Port))
	if !whole {
		return
	}
	e.String(svcScheduler, s.Scheduler)
	flags := binary.NativeEndian.AppendUint32(nil, s.flags())
	e.Bytes(svcFlags, binary.NativeEndian.AppendUint32(flags, ^uint32(0))) // value, mask
	e.Uint32(svcTimeout, uint32(s.Affinity.Seconds()))
	e.Uint32(svcNetmask, s.netmask())
}

func encodeDestination(e *netlink.AttributeEncoder, d Destination) {
	e.Bytes(destAddress, d.Address.AsSlice())
	e.Bytes(destPort, binary.BigEndian.AppendUint16(nil, d.Port))
	e.Uint16(destFamily, addressFamily(d.Address))
	e.Uint32(destMethod, 0) // masquerading
	e.Uint32(destWeight, d.Weight)
	e.Uint32(destUpperLimit, 0)
	e.Uint32(destLowerLimit, 0)
}

func addressFamily(a netip.Addr) uint16 {
	if a.Is6() {
		return unix.AF_INET6
	}
	return unix.AF_INET
}

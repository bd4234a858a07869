// SPDX-License-Identifier: Apache-2.0

package host

import (
	"encoding/binary"
	"fmt"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// nft speaks nf_tables in family inet. It is ours because google/nftables 0.3
// has no `ct original ip daddr` (without its length nft aborts when it lists the
// rule) and cannot read back a rule that holds a ct direction.
type nft struct{ conn *netlink.Conn }

// sendBuffer holds a transaction: 44 bytes for each element and family.
const sendBuffer = 16 << 20

func openNFT() (*nft, error) {
	conn, err := netlink.Dial(unix.NETLINK_NETFILTER, nil)
	if err != nil {
		return nil, fmt.Errorf("open netfilter socket: %w", err)
	}
	if err := conn.SetWriteBuffer(sendBuffer); err != nil {
		conn.Close()
		return nil, fmt.Errorf("set send buffer of netfilter socket: %w", err)
	}
	_ = conn.SetOption(netlink.ExtendedAcknowledge, true) // words for errors, where the kernel has them
	return &nft{conn}, nil
}

func (n *nft) close() { n.conn.Close() }

// field is a netlink attribute; integers are in network byte order.
type field = netlink.Attribute

func u8(kind uint16, v uint8) field { return field{Type: kind, Data: []byte{v}} }

func u32(kind uint16, v uint32) field {
	return field{Type: kind, Data: binary.BigEndian.AppendUint32(nil, v)}
}

func text(kind uint16, s string) field { return field{Type: kind, Data: append([]byte(s), 0)} }

func nest(kind uint16, fields ...field) field {
	return field{Type: kind | unix.NLA_F_NESTED, Data: marshal(fields)}
}

func marshal(fields []field) []byte {
	b, err := netlink.MarshalAttributes(fields)
	if err != nil {
		panic(err) // of attributes that are built here and below 64 KiB
	}
	return b
}

// command is one message of a transaction or a dump.
func command(kind uint16, flags netlink.HeaderFlags, fields ...field) netlink.Message {
	return netlink.Message{
		Header: netlink.Header{
			Type:  netlink.HeaderType(unix.NFNL_SUBSYS_NFTABLES<<8 | kind),
			Flags: netlink.Request | flags,
		},
		Data: append([]byte{unix.NFPROTO_INET, unix.NFNETLINK_V0, 0, 0}, marshal(fields)...),
	}
}

// border begins or ends a transaction.
func border(kind uint16) netlink.Message {
	return netlink.Message{
		Header: netlink.Header{Type: netlink.HeaderType(kind), Flags: netlink.Request},
		Data:   []byte{unix.AF_UNSPEC, unix.NFNETLINK_V0, 0, unix.NFNL_SUBSYS_NFTABLES},
	}
}

// commit makes all of commands happen at once, or none.
func (n *nft) commit(commands []netlink.Message) error {
	if len(commands) == 0 {
		return nil
	}
	commands[len(commands)-1].Header.Flags |= netlink.Acknowledge
	batch := append([]netlink.Message{border(unix.NFNL_MSG_BATCH_BEGIN)}, commands...)
	if _, err := n.conn.SendMessages(append(batch, border(unix.NFNL_MSG_BATCH_END))); err != nil {
		return err
	}
	// The first refusal or, with none, the acknowledgement of the last.
	_, err := n.conn.Receive()
	return err
}

// list returns the attributes of every object that a dump shows.
func (n *nft) list(kind uint16, filter ...field) ([][]field, error) {
	answers, err := n.conn.Execute(command(kind, netlink.Dump, filter...))
	if err != nil {
		return nil, err
	}
	var objects [][]field
	for _, a := range answers {
		if len(a.Data) < 4 {
			return nil, fmt.Errorf("nftables message of %d bytes", len(a.Data))
		}
		fields, err := netlink.UnmarshalAttributes(a.Data[4:])
		if err != nil {
			return nil, err
		}
		objects = append(objects, fields)
	}
	return objects, nil
}

// find returns the data of the first attribute of a kind, nil without one.
func find(fields []field, kind uint16) []byte {
	for _, f := range fields {
		if f.Type&^unix.NLA_F_NESTED == kind {
			return f.Data
		}
	}
	return nil
}

func findText(fields []field, kind uint16) string {
	return unix.ByteSliceToString(find(fields, kind))
}

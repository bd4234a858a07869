// SPDX-License-Identifier: Apache-2.0

package ipvs

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"net"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// The bytes that `ipvsadm -e` and our batch agree on: a destination is stated
// whole, its service by name. Recorded on a little-endian machine.
func TestEncodeDestination(t *testing.T) {
	op := Op{
		Kind:        UpdateDestination,
		Service:     Service{Address: netip.MustParseAddr("10.96.0.1"), Port: 80, Protocol: TCP, Scheduler: "wrr"},
		Destination: Destination{Address: netip.MustParseAddr("10.1.0.7"), Port: 8080, Weight: 300},
	}
	got, err := encode(op, 0x22, 9, netlink.Acknowledge)
	if err != nil {
		t.Fatal(err)
	}
	want := "74000000" + "2200" + "0500" + "09000000" + "00000000" + // header
		"06010000" + // set destination, version 1
		"24000180" + "06000100" + "02000000" + "06000200" + "06000000" + "08000300" + "0a600001" + "06000400" + "00500000" +
		"3c000280" + "08000100" + "0a010007" + "06000200" + "1f900000" + "06000b00" + "02000000" +
		"08000300" + "00000000" + "08000400" + "2c010000" + "08000500" + "00000000" + "08000600" + "00000000"
	if diff := cmp.Diff(want, hex.EncodeToString(got)); diff != "" {
		t.Errorf("message (-want +have):\n%s", diff)
	}
}

func TestEncodeRefusesWeights(t *testing.T) {
	op := Op{Kind: AddDestination, Service: Service{Address: netip.MustParseAddr("10.96.0.1")},
		Destination: Destination{Address: netip.MustParseAddr("10.1.0.7"), Weight: MaxWeight + 1}}
	if _, err := encode(op, 0x22, 1, 0); err == nil {
		t.Error("a weight that a dump cannot hold was encoded")
	}
}

// answer is an error message as netlink_ack sends it with NETLINK_CAP_ACK.
func answer(seq uint32, code int32) []byte {
	b := binary.NativeEndian.AppendUint32(nil, 36)
	b = binary.NativeEndian.AppendUint16(b, unix.NLMSG_ERROR)
	b = binary.NativeEndian.AppendUint16(b, 0)
	b = binary.NativeEndian.AppendUint32(b, seq)
	b = binary.NativeEndian.AppendUint32(b, 77)
	b = binary.NativeEndian.AppendUint32(b, uint32(code))
	return append(b, make([]byte, 16)...)
}

func TestReadAnswers(t *testing.T) {
	stale := answer(4, -int32(unix.EEXIST))
	refused := map[int]error{}
	done, err := readAnswers(append(stale, answer(5, -int32(unix.ENOENT))...), 5, 7, refused)
	if done || err != nil {
		t.Fatalf("done %t, error %v before the last answer", done, err)
	}
	if done, err = readAnswers(answer(7, 0), 5, 7, refused); !done || err != nil {
		t.Fatalf("done %t, error %v after the last answer", done, err)
	}
	if diff := cmp.Diff(map[int]error{0: unix.ENOENT}, refused, cmpopts.EquateErrors()); diff != "" {
		t.Errorf("refused (-want +have):\n%s", diff)
	}
}

func FuzzReadAnswers(f *testing.F) {
	f.Add(answer(5, 0), uint32(5), uint32(7))
	f.Add(answer(7, -2), uint32(5), uint32(7))
	f.Add([]byte{17, 0, 0, 0, 2, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 1}, uint32(5), uint32(5))
	f.Fuzz(func(t *testing.T, datagram []byte, first, last uint32) {
		refused := map[int]error{}
		_, err := readAnswers(datagram, first, last, refused)
		for i := range refused {
			if uint32(i) > last-first {
				t.Fatalf("answer to request %d of %d (error %v)", i, last-first+1, err)
			}
		}
	})
}

func TestReadAddress(t *testing.T) {
	for _, tt := range []struct {
		ip     net.IP
		family uint16
		want   string
	}{
		{net.IP{10, 1, 0, 7}, unix.AF_INET, "10.1.0.7"},
		{net.ParseIP("fd00::7"), unix.AF_INET6, "fd00::7"},
		{net.IP{0x20, 1, 0xd, 0xb8}, unix.AF_INET6, "2001:db8::"}, // as moby/ipvs guesses it
	} {
		got, err := readAddress(tt.ip, tt.family)
		if err != nil || got.String() != tt.want {
			t.Errorf("readAddress(%v, %d) = %s, %v, want %s", tt.ip, tt.family, got, err, tt.want)
		}
	}
	if _, err := readAddress(net.ParseIP("fd00::7"), unix.AF_INET); err == nil {
		t.Error("16 bytes were taken for an IPv4 address")
	}
	var none error
	if _, none = readAddress(nil, unix.AF_INET); none == nil || errors.Is(none, ErrNoIPVS) {
		t.Errorf("no address: %v", none)
	}
}

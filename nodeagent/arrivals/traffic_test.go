// SPDX-License-Identifier: Apache-2.0

package arrivals

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// serve accepts TCP connections and reads UDP datagrams at the address until the
// test ends.
func (n *namespace) serve(address string) {
	n.t.Helper()
	n.do(func() {
		l, err := net.Listen("tcp", address)
		if err != nil {
			n.t.Errorf("listen: %v", err)
			return
		}
		u, err := net.ListenPacket("udp", address)
		if err != nil {
			n.t.Errorf("listen: %v", err)
			return
		}
		n.t.Cleanup(func() { l.Close(); u.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				c.Close()
			}
		}()
		go func() {
			buffer := make([]byte, 1<<16)
			for {
				if _, _, err := u.ReadFrom(buffer); err != nil {
					return
				}
			}
		}()
	})
}

// connect opens so many TCP connections, one after the other, and returns how
// many came about: the client's own log.
func (n *namespace) connect(count int, address string) (made uint64) {
	n.t.Helper()
	n.do(func() { made = connect(count, address) })
	return made
}

func connect(count int, address string) (made uint64) {
	for range count {
		c, err := dial("tcp", address)
		if err != nil {
			continue
		}
		made++
		c.(*net.TCPConn).SetLinger(0)
		c.Close()
	}
	return made
}

// lastPort is the source port last used by any test's client: none is used again.
var lastPort atomic.Uint32

// dial connects from the next port.
func dial(network, address string) (net.Conn, error) {
	port := 10000 + int(lastPort.Add(1))%22000
	dialer := net.Dialer{Timeout: 10 * time.Second, LocalAddr: &net.TCPAddr{Port: port}}
	if network == "udp" {
		dialer.LocalAddr = &net.UDPAddr{Port: port}
	}
	return dialer.Dial(network, address)
}

// send sends datagrams of the size from so many sockets, each of them several,
// and returns the number of sockets whose first one left.
func (n *namespace) send(sockets, each, size int, address string) (sent uint64) {
	n.t.Helper()
	n.do(func() {
		for range sockets {
			c, err := dial("udp", address)
			if err != nil {
				n.t.Errorf("dial: %v", err)
				return
			}
			for i := range each {
				if _, err := c.Write(make([]byte, size)); err == nil && i == 0 {
					sent++
				}
			}
			c.Close()
		}
	})
	return sent
}

// inject sends packets as they are, by raw sockets.
func (n *namespace) inject(packets ...packet) {
	n.t.Helper()
	n.do(func() {
		sockets := map[int]int{}
		for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
			fd, err := unix.Socket(family, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
			if err != nil {
				n.t.Errorf("raw socket: %v", err)
				return
			}
			defer unix.Close(fd)
			sockets[family] = fd
		}
		for _, p := range packets {
			var err error
			if p.to.Addr().Is4() {
				err = unix.Sendto(sockets[unix.AF_INET], p.bytes(), 0, &unix.SockaddrInet4{Addr: p.to.Addr().As4()})
			} else {
				err = unix.Sendto(sockets[unix.AF_INET6], p.bytes(), 0, &unix.SockaddrInet6{Addr: p.to.Addr().As16()})
			}
			if err != nil {
				n.t.Errorf("inject: %v", err)
			}
		}
	})
}

// tracked are the test's services, and its client's network as an origin.
func track(t *testing.T, c *Counter) {
	t.Helper()
	service := func(name, ip string, port uint16) Service {
		s := Service{Name: name}
		for _, protocol := range []uint8{unix.IPPROTO_TCP, unix.IPPROTO_UDP, unix.IPPROTO_SCTP} {
			s.Addresses = append(s.Addresses, Address{IP: netip.MustParseAddr(ip), Port: port, Protocol: protocol})
		}
		return s
	}
	err := c.Track(
		[]Service{service("web4", vip4, 80), service("web6", vip6, 80)},
		[]Origin{{netip.MustParsePrefix("192.0.2.0/24"), "edge-2"}, {netip.MustParsePrefix("2001:db8::/64"), "edge-2"}})
	if err != nil {
		t.Fatal(err)
	}
}

// settled reads until the total is what is wanted, or no more grows for a while.
func settled(t *testing.T, c *Counter, want map[rowName]uint64) map[rowName]uint64 {
	t.Helper()
	var got map[rowName]uint64
	for range 40 {
		totals, err := c.Read(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		got = map[rowName]uint64{}
		for _, r := range totals.Rows {
			if r.Tasks > 0 {
				got[rowName{r.Service, r.Origin}] += r.Tasks
			}
		}
		if totals.Overflow > 0 {
			got[rowName{}] = totals.Overflow
		}
		if fmt.Sprint(got) == fmt.Sprint(want) {
			return got
		}
		time.Sleep(25 * time.Millisecond)
	}
	return got
}

type rowName struct{ service, origin string }

func wantRows(t *testing.T, c *Counter, want map[rowName]uint64) {
	t.Helper()
	for k, v := range want {
		if v == 0 {
			delete(want, k)
		}
	}
	if got := settled(t, c, want); fmt.Sprint(got) != fmt.Sprint(want) {
		stats, err := c.Stats(context.Background())
		t.Fatalf("counted %v, the clients did %v; stats %+v %v", got, want, stats, err)
	}
}

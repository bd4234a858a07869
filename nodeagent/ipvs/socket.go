// SPDX-License-Identifier: Apache-2.0

package ipvs

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

const (
	batchMessages = 256     // writes per send; at most 256 errors wait in the receive buffer
	receiveBuffer = 1 << 20 // bytes; one error takes about 1 KiB of it
	answerSeconds = 2       // the kernel answers within the send: anything longer is a stuck socket
)

// socket sends many generic netlink requests at once and collects the error of
// each. It belongs to the network namespace in which it was opened.
type socket struct {
	fd     int
	family uint16
	seq    uint32
}

func openSocket(family uint16) (*socket, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_GENERIC)
	if err != nil {
		return nil, fmt.Errorf("open netlink socket: %w", err)
	}
	s := &socket{fd: fd, family: family}
	if err := s.setUp(); err != nil {
		s.close()
		return nil, fmt.Errorf("set up netlink socket: %w", err)
	}
	return s, nil
}

func (s *socket) setUp() error {
	// Without CAP_NET_ADMIN in the first user namespace the buffer is only
	// raised to rmem_max, which holds a batch of errors too.
	if unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, receiveBuffer) != nil {
		if err := unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_RCVBUF, receiveBuffer); err != nil {
			return err
		}
	}
	timeout := unix.Timeval{Sec: answerSeconds}
	return errors.Join(
		unix.SetsockoptTimeval(s.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout),
		unix.SetsockoptTimeval(s.fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &timeout),
		unix.SetsockoptInt(s.fd, unix.SOL_NETLINK, unix.NETLINK_CAP_ACK, 1),
		unix.Bind(s.fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}),
	)
}

func (s *socket) close() { _ = unix.Close(s.fd) }

// batch sends up to batchMessages requests in one call and returns an error for
// each that the kernel refused, by index. Only the last asks for an answer:
// errors are reported anyway, in order, and the last answer ends them.
func (s *socket) batch(n int, request func(i int, seq uint32, flags netlink.HeaderFlags) ([]byte, error)) (map[int]error, error) {
	var wire []byte
	first := s.seq + 1
	for i := range n {
		s.seq++
		var flags netlink.HeaderFlags
		if i == n-1 {
			flags = netlink.Acknowledge
		}
		m, err := request(i, s.seq, flags)
		if err != nil {
			return nil, err
		}
		wire = append(wire, m...)
	}
	if err := unix.Sendto(s.fd, wire, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return nil, fmt.Errorf("send %d netlink requests: %w", n, err)
	}
	return s.collect(first, s.seq)
}

func (s *socket) collect(first, last uint32) (map[int]error, error) {
	refused := map[int]error{}
	buffer := make([]byte, 1<<16)
	for {
		n, _, err := unix.Recvfrom(s.fd, buffer, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("receive netlink answers: %w", err)
		}
		done, err := readAnswers(buffer[:n], first, last, refused)
		if done || err != nil {
			return refused, err
		}
	}
}

// readAnswers reads one datagram of answers to the requests first to last into
// refused, by index, and says whether the last one was among them. Answers to
// earlier requests, of a batch that was given up, are passed over.
func readAnswers(datagram []byte, first, last uint32, refused map[int]error) (done bool, err error) {
	for len(datagram) >= unix.NLMSG_HDRLEN {
		length := binary.NativeEndian.Uint32(datagram[0:4])
		kind := binary.NativeEndian.Uint16(datagram[4:6])
		seq := binary.NativeEndian.Uint32(datagram[8:12])
		if length < unix.NLMSG_HDRLEN || int(length) > len(datagram) {
			return false, fmt.Errorf("netlink answer of %d bytes in a datagram of %d", length, len(datagram))
		}
		if index := seq - first; kind == unix.NLMSG_ERROR && index <= last-first {
			if length < unix.NLMSG_HDRLEN+4 {
				return false, fmt.Errorf("netlink error of %d bytes", length)
			}
			code := int32(binary.NativeEndian.Uint32(datagram[unix.NLMSG_HDRLEN:]))
			if code != 0 {
				refused[int(index)] = unix.Errno(-code)
			}
			done = done || seq == last
		}
		datagram = datagram[min(int(length+3)&^3, len(datagram)):]
	}
	return done, nil
}

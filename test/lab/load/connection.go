// SPDX-License-Identifier: Apache-2.0

package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"time"
)

// maxAnswer bounds what is read of an answer.
const maxAnswer = 4096

// Record is what the log tells of one arrival, as one line of JSON.
type Record struct {
	Service string `json:"service"`
	Node    string `json:"node"`
	// Pod is the name in the answer; empty when there was none.
	Pod string `json:"pod,omitempty"`
	// Source is empty when the arrival was skipped and nothing was sent.
	Source string    `json:"source,omitempty"`
	Start  time.Time `json:"start"` // intended
	// Both count from the intended start.
	ConnectMillis float64 `json:"connectMillis"`
	TotalMillis   float64 `json:"totalMillis"`
	Error         string  `json:"error,omitempty"`
}

// connect makes the connection of one arrival and fills in the record. It ends by
// the context's deadline.
func connect(ctx context.Context, s Stream, free *ports, r *Record) error {
	conn, err := dial(ctx, s, free, r)
	if err != nil {
		return err
	}
	defer conn.Close()
	r.ConnectMillis = millis(time.Since(r.Start))
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if s.Protocol == "udp" {
		r.Pod, err = exchange(conn)
	} else {
		r.Pod, err = receive(conn)
	}
	if err == nil && r.Pod == "" {
		err = errors.New("empty answer")
	}
	return err
}

// dial connects from the next free port of the stream's source address and
// records which.
func dial(ctx context.Context, s Stream, free *ports, r *Record) (net.Conn, error) {
	const attempts = 100 // ports that others hold
	var err error
	for range attempts {
		local := netip.AddrPortFrom(s.Source, free.take(s.Source, s.Protocol))
		// Keep-alives would cost four system calls for nothing.
		d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(local), KeepAlive: -1}
		if s.Protocol == "udp" {
			d.LocalAddr = net.UDPAddrFromAddrPort(local)
		}
		var conn net.Conn
		conn, err = d.DialContext(ctx, s.Protocol, s.Target.String())
		if !errors.Is(err, syscall.EADDRINUSE) {
			r.Source = local.String() // of a failed one too: packets were sent
			return conn, err
		}
	}
	return nil, err
}

// receive reads a TCP answer: all until the server closes.
func receive(conn net.Conn) (string, error) {
	b, err := io.ReadAll(io.LimitReader(conn, maxAnswer))
	return string(b), err
}

// exchange sends a datagram and reads its answer: a name, a blank, the datagram.
func exchange(conn net.Conn) (string, error) {
	const question = "weir"
	if _, err := conn.Write([]byte(question)); err != nil {
		return "", err
	}
	b := make([]byte, maxAnswer)
	n, err := conn.Read(b)
	if err != nil {
		return "", err
	}
	name, echo, _ := strings.Cut(string(b[:n]), " ")
	if echo != question {
		return "", fmt.Errorf("answer %q to %q", b[:n], question)
	}
	return name, nil
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

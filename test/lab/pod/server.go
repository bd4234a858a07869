// SPDX-License-Identifier: Apache-2.0

// Package pod is the lab's workload: a server with a bounded number of workers,
// each occupied by a request for a service time, and so with a real capacity and
// a real queue. It tells its workers' use at /metrics as
// weir_usage_seconds_total and weir_capacity, the contract by which a node agent
// reads resources that only the pod knows.
package pod

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

// Config describes one pod.
type Config struct {
	Name     string        // what every request is answered with
	Port     uint16        // of TCP and UDP alike
	Metrics  uint16        // port of /metrics; 0 is none
	Workers  int           // requests served at the same time, at least 1
	Service  time.Duration // mean of a request's service time
	Shape    int           // of its Erlang distribution: variance mean²/Shape; 0 is 1, exponential
	Seed     uint64        // of the service times
	MaxQueue int           // requests that wait at most; 0 is 65536. Further ones are refused
	Drain    time.Duration // time for waiting requests after the end; 0 is 10 s
}

// maxDatagram bounds a UDP request. Its payload is sent back after the name.
const maxDatagram = 2048

// Server serves one pod.
type Server struct {
	cfg     Config
	queue   *queue
	refused counter
	// intake is held for reading while requests are put into the queue.
	intake   sync.RWMutex
	draining bool
}

// New checks the configuration and starts the workers.
func New(cfg Config) (*Server, error) {
	if cfg.MaxQueue == 0 {
		cfg.MaxQueue = 1 << 16
	}
	if cfg.Drain == 0 {
		cfg.Drain = 10 * time.Second
	}
	if cfg.Name == "" || cfg.Workers < 1 || cfg.MaxQueue < 0 || cfg.Service < 0 {
		return nil, fmt.Errorf("pod %q: name, workers (%d), queue (%d) and service time (%v) don't make a server",
			cfg.Name, cfg.Workers, cfg.MaxQueue, cfg.Service)
	}
	return &Server{cfg: cfg, queue: newQueue(cfg.Workers, cfg.MaxQueue, cfg.Service, cfg.Shape, cfg.Seed)}, nil
}

// Run listens on the configured ports, on every address, and serves until the
// context ends; then it takes nothing new and serves what waits.
func (s *Server) Run(ctx context.Context) error {
	listen := net.ListenConfig{KeepAlive: -1} // four system calls less per connection
	// A multipath listener would answer other options in the handshake than most
	// servers do.
	listen.SetMultipathTCP(false)
	address := fmt.Sprintf(":%d", s.cfg.Port)
	tcp, err := listen.Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("pod %s: %w", s.cfg.Name, err)
	}
	defer tcp.Close()
	udp, err := listen.ListenPacket(ctx, "udp", address)
	if err != nil {
		return fmt.Errorf("pod %s: %w", s.cfg.Name, err)
	}
	defer udp.Close()
	if s.cfg.Metrics != 0 {
		metrics, err := listen.Listen(ctx, "tcp", fmt.Sprintf(":%d", s.cfg.Metrics))
		if err != nil {
			return fmt.Errorf("pod %s: metrics: %w", s.cfg.Name, err)
		}
		web := &http.Server{Handler: s.Handler(), ReadHeaderTimeout: 5 * time.Second}
		defer web.Close()
		go func() { _ = web.Serve(metrics) }()
	}
	return s.Serve(ctx, tcp, udp)
}

// Serve is Run with sockets that are open already; it closes the listener and
// leaves udp open until what waits is answered.
func (s *Server) Serve(ctx context.Context, tcp net.Listener, udp net.PacketConn) error {
	var loops sync.WaitGroup
	failed := make(chan error, 2)
	loops.Go(func() { failed <- s.serveTCP(tcp) })
	loops.Go(func() { failed <- s.serveUDP(udp) })
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	s.intake.Lock()
	s.draining = true
	s.intake.Unlock()
	_ = tcp.Close()
	_ = udp.SetReadDeadline(time.Now())
	loops.Wait()
	if drainErr := s.drain(); err == nil {
		err = drainErr
	}
	return err
}

func (s *Server) drain() error {
	done := make(chan struct{})
	go func() {
		s.queue.drain()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-time.After(s.cfg.Drain):
		return fmt.Errorf("pod %s: %d requests still waited after %v", s.cfg.Name, len(s.queue.waiting), s.cfg.Drain)
	}
}

// offer queues a request unless the server is ending.
func (s *Server) offer(done func()) bool {
	s.intake.RLock()
	defer s.intake.RUnlock()
	if s.draining || !s.queue.offer(done) {
		s.refused.add()
		return false
	}
	return true
}

// serveTCP takes each connection as one request. The name is written and the
// connection closed when the request has been served. A refused one is reset, so
// that its client can't take it for an answer.
func (s *Server) serveTCP(l net.Listener) error {
	for {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("pod %s: %w", s.cfg.Name, err)
		}
		taken := s.offer(func() {
			_, _ = conn.Write([]byte(s.cfg.Name))
			_ = conn.Close()
		})
		if !taken {
			if tcp, ok := conn.(*net.TCPConn); ok {
				_ = tcp.SetLinger(0)
			}
			_ = conn.Close()
		}
	}
}

// serveUDP takes each datagram as one request and answers it with the name, a
// blank, and the datagram.
func (s *Server) serveUDP(conn net.PacketConn) error {
	buffer := make([]byte, maxDatagram)
	for {
		n, from, err := conn.ReadFrom(buffer)
		var timeout net.Error
		if errors.Is(err, net.ErrClosed) || errors.As(err, &timeout) && timeout.Timeout() {
			return nil
		}
		if err != nil {
			// Such as the ICMP answer to an earlier reply: of no concern to others.
			continue
		}
		reply := append([]byte(s.cfg.Name+" "), buffer[:n]...)
		s.offer(func() { _, _ = conn.WriteTo(reply, from) })
	}
}

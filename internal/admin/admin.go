// SPDX-License-Identifier: Apache-2.0

// Package admin is the one HTTP port at which a component shows its metrics,
// its health and its state:
//
//	/metrics  Prometheus text
//	/healthz  200 while the process does its work; else 503 and the reason
//	/readyz   200 once it has done its work for the first time
//	/status   the component's state as JSON, what is degraded included
//	/debug/pprof  profiles of the process, where asked for
package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// grace is how long requests may take to end once the component stops.
const grace = 2 * time.Second

// Server serves one component's admin port.
type Server struct {
	// Address is host:port; port 0 chooses a free one.
	Address  string
	Gatherer prometheus.Gatherer
	// Live and Ready return nil, or why not.
	Live, Ready func() error
	// Status returns what /status shows.
	Status func() any
	// Profile adds /debug/pprof.
	Profile bool
	Logger  *slog.Logger
}

// Run listens and serves until ctx ends.
func (s *Server) Run(ctx context.Context) error {
	listener, err := net.Listen("tcp", s.Address)
	if err != nil {
		return fmt.Errorf("admin port %s: %w", s.Address, err)
	}
	s.Logger.Info("admin port", "address", listener.Addr().String())
	server := &http.Server{
		Handler:           s.Handler(),
		ReadHeaderTimeout: 5 * time.Second,
		WriteTimeout:      time.Minute,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("admin port %s: %w", s.Address, err)
	case <-ctx.Done():
	}
	stopping, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	err = server.Shutdown(stopping)
	if errors.Is(err, context.DeadlineExceeded) {
		return server.Close()
	}
	return err
}

// Handler returns the port's pages.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.Gatherer, promhttp.HandlerOpts{MaxRequestsInFlight: 4, Timeout: 10 * time.Second}))
	mux.HandleFunc("GET /healthz", probe(s.Live))
	mux.HandleFunc("GET /readyz", probe(s.Ready))
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		if err := enc.Encode(s.Status()); err != nil {
			s.Logger.Warn("status page", "error", err)
		}
	})
	if s.Profile {
		mux.HandleFunc("GET /debug/pprof/", pprof.Index)
		mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	}
	return mux
}

func probe(check func() error) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if err := check(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	}
}

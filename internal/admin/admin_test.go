// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

func testServer(live error) *Server {
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewCounter(prometheus.CounterOpts{Name: "weir_test_total", Help: "A counter."}))
	return &Server{Address: "127.0.0.1:0", Gatherer: registry, Logger: slog.New(slog.DiscardHandler),
		Live: func() error { return live }, Ready: func() error { return nil },
		Status: func() any { return map[string]string{"node": "edge-1"} }}
}

func TestPages(t *testing.T) {
	tests := []struct {
		path, want string
		live       error
		code       int
	}{
		{"/metrics", "weir_test_total 0", nil, 200},
		{"/healthz", "ok", nil, 200},
		{"/healthz", "netlink is stuck", errors.New("netlink is stuck"), 503},
		{"/readyz", "ok", errors.New("netlink is stuck"), 200},
		{"/status", `"node": "edge-1"`, nil, 200},
		{"/other", "not found", nil, 404},
	}
	for _, tt := range tests {
		w := httptest.NewRecorder()
		testServer(tt.live).Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, tt.path, nil))
		if w.Code != tt.code || !strings.Contains(w.Body.String(), tt.want) {
			t.Errorf("GET %s: %d %q, want %d with %q", tt.path, w.Code, w.Body, tt.code, tt.want)
		}
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- testServer(nil).Run(ctx) }()
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestTakenPortIsNamed(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s := testServer(nil)
	s.Address = l.Addr().String()
	if err := s.Run(t.Context()); err == nil || !strings.Contains(err.Error(), s.Address) {
		t.Errorf("error %v does not name %s", err, s.Address)
	}
}

// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// Fault is what a Proxy does to the requests that it matches.
type Fault struct {
	// Match chooses the requests; nil is all.
	Match func(*http.Request) bool
	// Share of the matching requests that are hit; 0 is all of them.
	Share float64
	// Delay before anything else is done.
	Delay time.Duration
	// Status answers with this code instead of asking the server: 429, 500, 410.
	Status int
	// RetryAfter is told with Status, in whole seconds; 0 tells none.
	RetryAfter time.Duration
	// Cut breaks the connection without an answer.
	Cut bool
}

// Proxy passes requests to a server until it is told to play faults. It speaks
// TLS and HTTP/2 where the server does.
type Proxy struct {
	// URL is where it listens.
	URL string

	mu      sync.Mutex
	faults  []Fault
	server  *httptest.Server
	seen    int
	hit     int
	streams map[int]context.CancelFunc
	next    int
}

// Proxy puts one before the API server, until the test's end.
func (c *Cluster) Proxy(t testing.TB) *Proxy {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(c.pki.ca)
	pair, err := tls.LoadX509KeyPair(c.pki.certFile, c.pki.keyFile)
	if err != nil {
		t.Fatal(err)
	}
	return newProxy(t, c.URL, &tls.Config{RootCAs: pool}, &tls.Config{Certificates: []tls.Certificate{pair}})
}

// NewProxy puts one before any HTTP server, such as Prometheus.
func NewProxy(t testing.TB, server string) *Proxy { return newProxy(t, server, nil, nil) }

func newProxy(t testing.TB, server string, client, serve *tls.Config) *Proxy {
	t.Helper()
	target, err := url.Parse(server)
	if err != nil {
		t.Fatalf("proxy before %s: %v", server, err)
	}
	pass := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     &http.Transport{TLSClientConfig: client, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 100},
		FlushInterval: -1, // watches
		ErrorHandler:  func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	p := &Proxy{streams: map[int]context.CancelFunc{}}
	p.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { p.serve(w, r, pass) }))
	if serve != nil {
		p.server.TLS, p.server.EnableHTTP2 = serve, true
		p.server.StartTLS()
	} else {
		p.server.Start()
	}
	p.URL = p.server.URL
	t.Cleanup(func() { p.Sever(); p.server.CloseClientConnections(); p.server.Close() })
	return p
}

// Config returns config, led through the proxy.
func (p *Proxy) Config(config *rest.Config) *rest.Config {
	through := rest.CopyConfig(config)
	through.Host = p.URL
	return through
}

// Set replaces the faults; the first that matches a request is played. Without
// arguments it heals. Open watches go on: Sever ends them.
func (p *Proxy) Set(faults ...Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = faults
}

// Sever breaks every request in flight, watches too.
func (p *Proxy) Sever() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, cancel := range p.streams {
		cancel()
	}
}

// Counts tells how many requests came and how many of them a fault hit.
func (p *Proxy) Counts() (seen, hit int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen, p.hit
}

func (p *Proxy) serve(w http.ResponseWriter, r *http.Request, pass http.Handler) {
	ctx, done := p.enter(r.Context())
	defer done()
	fault := p.choose(r)
	if fault.Delay > 0 {
		select {
		case <-ctx.Done():
		case <-time.After(fault.Delay):
		}
	}
	if fault.Cut || ctx.Err() != nil {
		panic(http.ErrAbortHandler)
	}
	if fault.Status != 0 {
		fault.answer(w)
		return
	}
	pass.ServeHTTP(w, r.WithContext(ctx))
}

// enter registers a request in flight for Sever.
func (p *Proxy) enter(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next++
	id := p.next
	p.streams[id] = cancel
	return ctx, func() {
		cancel()
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.streams, id)
	}
}

func (p *Proxy) choose(r *http.Request) Fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen++
	for _, f := range p.faults {
		if (f.Match == nil || f.Match(r)) && (f.Share == 0 || rand.Float64() < f.Share) {
			p.hit++
			return f
		}
	}
	return Fault{}
}

// answer writes a Status object, as the API server does.
func (f Fault) answer(w http.ResponseWriter) {
	reason := map[int]metav1.StatusReason{
		http.StatusTooManyRequests: metav1.StatusReasonTooManyRequests, http.StatusInternalServerError: metav1.StatusReasonInternalError,
		http.StatusGone: metav1.StatusReasonExpired, http.StatusServiceUnavailable: metav1.StatusReasonServiceUnavailable,
		http.StatusConflict: metav1.StatusReasonConflict, http.StatusForbidden: metav1.StatusReasonForbidden,
	}[f.Status]
	status := metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
		Code: int32(f.Status), Reason: reason, Message: fmt.Sprintf("a fault of the test: %d", f.Status),
	}
	w.Header().Set("Content-Type", "application/json")
	if f.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(f.RetryAfter.Seconds())))
	}
	w.WriteHeader(f.Status)
	text, _ := json.Marshal(status)
	io.Copy(w, bytes.NewReader(text))
}

// IsWatch matches the requests that open a watch.
func IsWatch(r *http.Request) bool { return r.URL.Query().Get("watch") != "" }

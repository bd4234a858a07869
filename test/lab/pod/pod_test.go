// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"context"
	"io"
	"math"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

// serve starts a pod on loopback.
func serve(t *testing.T, cfg Config) (s *Server, tcp, udp string, stop func() error) {
	t.Helper()
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	u, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- s.Serve(ctx, l, u)
		u.Close()
	}()
	stop = func() error {
		cancel()
		err := <-ended
		ended <- err
		return err
	}
	t.Cleanup(func() { _ = stop() })
	return s, l.Addr().String(), u.LocalAddr().String(), stop
}

func call(address string) (string, error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	b, err := io.ReadAll(conn)
	return string(b), err
}

func TestAnswersWithItsName(t *testing.T) {
	_, tcp, udp, _ := serve(t, Config{Name: "shop/web-a", Workers: 1})
	if got, err := call(tcp); err != nil || got != "shop/web-a" {
		t.Errorf("TCP answer %q, error %v", got, err)
	}
	conn, err := net.Dial("udp", udp)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	reply := make([]byte, 100)
	if _, err := conn.Write([]byte("ping 1")); err != nil {
		t.Fatal(err)
	}
	if n, err := conn.Read(reply); err != nil || string(reply[:n]) != "shop/web-a ping 1" {
		t.Errorf("UDP answer %q, error %v", reply[:n], err)
	}
}

// With W workers and N requests at once, the workers are never more than W, all
// of them work as long as requests wait, and the worker time used is the sum of
// the service times, counted while they run.
func TestQueueBehindBoundedWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const workers, requests, mean = 4, 4000, 100 * time.Millisecond
		q := newQueue(workers, requests, mean, 1, 1)
		start := time.Now()
		served := 0
		ends := make(chan time.Time, requests)
		for range requests {
			if !q.offer(func() { ends <- time.Now() }) {
				t.Fatal("refused")
			}
		}
		time.Sleep(10 * time.Second)
		if used, busy, _ := q.usage.read(time.Now()); used != 10*time.Second*workers || busy != workers {
			t.Errorf("after 10 s: %v of worker time, %d busy; want %v, %d", used, busy, 10*time.Second*workers, workers)
		}
		q.drain()
		took := time.Since(start)
		served = len(ends)
		used, busy, counted := q.usage.read(time.Now())
		if served != requests || counted != requests || busy != 0 {
			t.Errorf("%d served, %d counted, %d busy; want %d, %d, 0", served, counted, busy, requests, requests)
		}
		// The sum of 4000 exponential times has a relative deviation of 1.6%.
		if got := used.Seconds() / (requests * mean.Seconds()); math.Abs(got-1) > 0.06 {
			t.Errorf("mean service time is %.3f of what was asked for", got)
		}
		if idle := took*workers - used; idle < 0 || idle > took/20 {
			t.Errorf("workers idled %v of %v while requests waited", idle, took*workers)
		}
	})
}

func TestServiceTimesRepeatWithTheSeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		draws := func(seed uint64) (d [5]time.Duration) {
			q := newQueue(1, 1, time.Second, 4, seed)
			defer q.drain()
			for i := range d {
				d[i] = q.draw()
			}
			return d
		}
		if a, b := draws(7), draws(7); a != b {
			t.Errorf("seed 7 gave %v and %v", a, b)
		}
		if a, b := draws(7), draws(8); a == b {
			t.Errorf("seeds 7 and 8 both gave %v", a)
		}
	})
}

func TestFullQueueRefuses(t *testing.T) {
	s, tcp, _, _ := serve(t, Config{Name: "a", Workers: 1, MaxQueue: 1, Service: time.Hour, Drain: time.Millisecond})
	for range 2 { // one is served, one waits
		go func() { _, _ = call(tcp) }()
	}
	for end := time.Now().Add(5 * time.Second); len(s.queue.waiting) == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("no request waits")
		}
	}
	if got, err := call(tcp); err == nil {
		t.Errorf("a refused connection answered %q without an error", got)
	}
	if n := s.refused.n.Load(); n != 1 {
		t.Errorf("%d refused, want 1", n)
	}
}

func TestDrainServesWhatWaits(t *testing.T) {
	s, tcp, _, stop := serve(t, Config{Name: "a", Workers: 1, Service: 20 * time.Millisecond})
	const requests = 5
	answers := make(chan string, requests)
	for range requests {
		go func() {
			got, _ := call(tcp)
			answers <- got
		}()
	}
	accepted := func() int {
		_, busy, served := s.queue.usage.read(time.Now())
		return busy + int(served) + len(s.queue.waiting)
	}
	for end := time.Now().Add(5 * time.Second); accepted() < requests; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d requests came, want %d", accepted(), requests)
		}
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	for range requests {
		if got := <-answers; got != "a" {
			t.Errorf("answer %q while draining", got)
		}
	}
	if _, err := call(tcp); err == nil {
		t.Error("a connection after the end was taken")
	}
}

func TestDrainHasALimit(t *testing.T) {
	s, tcp, _, stop := serve(t, Config{Name: "a", Workers: 1, Service: time.Hour, Drain: 10 * time.Millisecond})
	go func() { _, _ = call(tcp) }()
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
		if _, busy, _ := s.queue.usage.read(time.Now()); busy == 1 {
			break
		} else if time.Now().After(end) {
			t.Fatal("no request is served")
		}
	}
	if err := stop(); err == nil {
		t.Error("a drain that could not end gave no error")
	}
}

func TestMetrics(t *testing.T) {
	s, tcp, _, _ := serve(t, Config{Name: "a", Workers: 3, Service: time.Millisecond})
	if _, err := call(tcp); err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for _, want := range []string{
		`weir_capacity{resource="workers"} 3`, `weir_usage_seconds_total{resource="workers"} `,
		"pod_requests_served_total 1", "pod_queue_length 0", "pod_busy_workers 0", "pod_requests_refused_total 0",
	} {
		if !strings.Contains(w.Body.String(), "\n"+want) {
			t.Errorf("no %q in\n%s", want, w.Body)
		}
	}
	problems, err := testutil.CollectAndLint(collector{s})
	if err != nil || len(problems) > 0 {
		t.Errorf("metrics: %v, error %v", problems, err)
	}
}

func TestNewRefuses(t *testing.T) {
	for _, cfg := range []Config{{}, {Name: "a"}, {Name: "a", Workers: 1, Service: -1}, {Name: "a", Workers: 1, MaxQueue: -1}} {
		if _, err := New(cfg); err == nil {
			t.Errorf("New(%+v): no error", cfg)
		}
	}
}

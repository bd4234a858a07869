// SPDX-License-Identifier: Apache-2.0

package load

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func plan(streams ...Stream) *Plan {
	return &Plan{
		Seed: 1, Duration: Duration(time.Second), Timeout: Duration(10 * time.Second),
		MaxConnections: 100_000, MaxConcurrent: 10_000, Streams: streams,
	}
}

func stream(service, node string, rate float64) Stream {
	return Stream{Service: service, Node: node, Rate: rate,
		Source: netip.MustParseAddr("127.0.0.1"), Target: netip.MustParseAddrPort("127.0.0.1:1")}
}

// times returns when the stream's connections arrive.
func times(t interface{ Fatal(...any) }, p *Plan, service, node string) []time.Duration {
	all, err := p.Arrivals()
	if err != nil {
		t.Fatal(err)
	}
	var at []time.Duration
	for _, a := range all {
		if s := p.Streams[a.Stream]; s.Service == service && s.Node == node {
			at = append(at, a.At)
		}
	}
	return at
}

// A stream's arrivals are in order, within the run, the same for the same seed,
// and don't depend on the other streams or their order.
func TestArrivalsRepeatWithTheSeed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := rapid.Float64Range(0, 500).Draw(t, "rate")
		seed := rapid.Uint64().Draw(t, "seed")
		alone := plan(stream("a", "edge-1", rate))
		among := plan(stream("b", "edge-1", 50), stream("a", "edge-2", 20), stream("a", "edge-1", rate))
		alone.Seed, among.Seed = seed, seed
		one, two := times(t, alone, "a", "edge-1"), times(t, among, "a", "edge-1")
		if !slices.Equal(one, two) {
			t.Fatalf("alone %v, among others %v", one, two)
		}
		if !slices.IsSorted(one) || len(one) > 0 && one[len(one)-1] >= time.Second {
			t.Fatalf("not in order or after the end: %v", one)
		}
		all, _ := among.Arrivals()
		if !slices.IsSortedFunc(all, func(a, b Arrival) int { return int(a.At - b.At) }) {
			t.Fatal("streams are not merged in order")
		}
		among.Seed++
		if other := times(t, among, "a", "edge-1"); len(one) > 5 && slices.Equal(one, other) {
			t.Fatal("another seed gave the same arrivals")
		}
	})
}

// Gaps of a Poisson process are exponential: mean and deviation are 1/rate.
func TestArrivalsArePoisson(t *testing.T) {
	p := plan(stream("a", "edge-1", 200))
	p.Duration = Duration(200 * time.Second)
	at := times(t, p, "a", "edge-1")
	var sum, squares float64
	for i := 1; i < len(at); i++ {
		gap := (at[i] - at[i-1]).Seconds()
		sum, squares = sum+gap, squares+gap*gap
	}
	n := float64(len(at) - 1)
	mean := sum / n
	deviation := math.Sqrt(squares/n - mean*mean)
	if math.Abs(mean*200-1) > 0.03 || math.Abs(deviation*200-1) > 0.03 {
		t.Errorf("%d gaps: mean %.5f, deviation %.5f, want 0.005 both", len(at), mean, deviation)
	}
}

func TestArrivalsAreBounded(t *testing.T) {
	p := plan(stream("a", "edge-1", 1000))
	p.MaxConnections = 10
	if _, err := p.Arrivals(); err == nil {
		t.Error("more arrivals than maxConnections: no error")
	}
}

func TestPortsAreFresh(t *testing.T) {
	p := newPorts(65000)
	a, b := netip.MustParseAddr("10.9.0.1"), netip.MustParseAddr("10.9.0.2")
	seen := map[uint16]bool{}
	for range 536 {
		port := p.take(a, "tcp")
		if port < 65000 || seen[port] {
			t.Fatalf("port %d again, or before the first", port)
		}
		seen[port] = true
	}
	if port := p.take(b, "tcp"); port != 65000 {
		t.Errorf("another address begins at %d", port)
	}
	if port := p.take(a, "udp"); port != 65000 {
		t.Errorf("another protocol begins at %d", port)
	}
	if reused, next := p.state(); reused != 0 || next != 0 {
		t.Errorf("all used once: reused %d, next %d; want 0, 0", reused, next)
	}
	if port := p.take(a, "tcp"); port != 65000 {
		t.Errorf("after the last port comes %d", port)
	}
	if reused, _ := p.state(); reused != 1 {
		t.Errorf("reused %d, want 1", reused)
	}
	q := newPorts(2000)
	q.take(a, "tcp")
	q.take(a, "tcp")
	if _, next := q.state(); next != 2002 {
		t.Errorf("next run begins at %d, want 2002", next)
	}
}

// server answers each connection with its name after handle returns.
func server(t *testing.T, name string, handle func()) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				handle()
				fmt.Fprint(conn, name)
				conn.Close()
			}()
		}
	}()
	return l.Addr().(*net.TCPAddr).AddrPort()
}

// run carries the plan out and returns what was logged.
func run(t *testing.T, p *Plan) (Result, []Record) {
	t.Helper()
	if err := p.Check(); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	last := Progress{}
	result, err := Run(t.Context(), p, &log, func(p Progress) { last = p })
	if err != nil {
		t.Fatal(err)
	}
	if last.Total.Offered != result.Total.Offered || last.InFlight != 0 {
		t.Errorf("the last progress is %+v, the result %+v", last, result)
	}
	var records []Record
	for lines := bufio.NewScanner(&log); lines.Scan(); {
		var r Record
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatalf("%q: %v", lines.Text(), err)
		}
		records = append(records, r)
	}
	return result, records
}

func TestEveryConnectionIsLoggedOnce(t *testing.T) {
	target := server(t, "web-a", func() {})
	one, two, dead := stream("web", "edge-1", 100), stream("web", "edge-2", 50), stream("none", "edge-1", 20)
	one.Target, two.Target = target, target
	two.Source = netip.MustParseAddr("127.0.0.2")
	p := plan(one, two, dead)
	arrivals, err := p.Arrivals()
	if err != nil {
		t.Fatal(err)
	}
	result, records := run(t, p)
	if len(records) != len(arrivals) || result.Total.Offered != len(arrivals) || result.Total.Connections != len(arrivals) {
		t.Errorf("%d arrivals, %d logged, result %+v", len(arrivals), len(records), result.Total)
	}
	sources := map[string]bool{}
	failed := 0
	for _, r := range records {
		if sources[r.Source] {
			t.Errorf("source %s twice", r.Source)
		}
		sources[r.Source] = true
		if r.Error != "" {
			failed++
		}
		if (r.Service == "none") != (r.Error != "") || (r.Pod == "web-a") != (r.Error == "") || r.TotalMillis < r.ConnectMillis {
			t.Errorf("record %+v", r)
		}
		if wantSource := map[string]string{"edge-1": "127.0.0.1:", "edge-2": "127.0.0.2:"}[r.Node]; !strings.HasPrefix(r.Source, wantSource) {
			t.Errorf("node %s from %s", r.Node, r.Source)
		}
	}
	if failed != len(times(t, p, "none", "edge-1")) || failed != result.Total.Failed || result.ReusedPorts != 0 {
		t.Errorf("%d failed in the log, result %+v", failed, result)
	}
	if s := result.Streams[1]; s.Pods["web-a"] != s.Completed || s.Completed != len(times(t, p, "web", "edge-2")) {
		t.Errorf("second stream %+v", s)
	}
}

// A server that stands still for a second shows in the open-loop measure. The
// control is a closed loop, which waits for each answer before it asks again, and
// so meets the standstill once only.
func TestStandstillShows(t *testing.T) {
	var gate sync.RWMutex
	target := server(t, "web-a", func() {
		gate.RLock()
		defer gate.RUnlock()
	})
	standstill := func() {
		time.Sleep(500 * time.Millisecond)
		gate.Lock()
		time.Sleep(time.Second)
		gate.Unlock()
	}

	s := stream("web", "edge-1", 100)
	s.Target = target
	p := plan(s)
	p.Duration = Duration(2 * time.Second)
	go standstill()
	result, _ := run(t, p)
	if result.Total.Failed != 0 || result.Total.P99Millis < 900 {
		t.Errorf("open loop: %+v, want p99 near 1000 ms", result.Total)
	}
	if result.Total.P50Millis < 20 {
		t.Errorf("open loop: p50 %v ms, want the half that came in the standstill seen", result.Total.P50Millis)
	}

	go standstill()
	var latencies []time.Duration
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		start := time.Now()
		conn, err := net.Dial("tcp", target.String())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = receive(conn)
		conn.Close()
		latencies = append(latencies, time.Since(start))
	}
	slices.Sort(latencies)
	if p99 := latencies[len(latencies)*99/100]; p99 > 500*time.Millisecond {
		t.Errorf("closed loop: p99 %v of %d: the control shows the standstill too", p99, len(latencies))
	}
}

func TestTimeoutAndConcurrencyAreBounded(t *testing.T) {
	block := make(chan struct{})
	t.Cleanup(func() { close(block) })
	s := stream("web", "edge-1", 50)
	s.Target = server(t, "web-a", func() { <-block })
	p := plan(s)
	p.Timeout, p.MaxConcurrent = Duration(400*time.Millisecond), 3
	result, records := run(t, p)
	if result.Total.Completed != 0 || result.Total.Failed != result.Total.Offered || result.Total.Connections >= result.Total.Offered {
		t.Errorf("result %+v", result.Total)
	}
	skipped := 0
	for _, r := range records {
		if r.Source == "" {
			skipped++
		} else if r.TotalMillis < 390 || r.TotalMillis > 3000 {
			t.Errorf("timeout after %v ms, want 400", r.TotalMillis)
		}
	}
	if skipped != result.Total.Offered-result.Total.Connections {
		t.Errorf("%d skipped in the log, result %+v", skipped, result.Total)
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	block := make(chan struct{})
	t.Cleanup(func() { close(block) })
	s := stream("web", "edge-1", 50)
	s.Target = server(t, "web-a", func() { <-block })
	p := plan(s)
	p.Duration, p.Timeout = Duration(time.Hour), Duration(time.Hour)
	p.MaxConnections = 1_000_000
	if err := p.Check(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	var log bytes.Buffer
	start := time.Now()
	result, err := Run(ctx, p, &log, func(Progress) {})
	if err == nil || time.Since(start) > 5*time.Second || result.Total.Offered != result.Total.Failed {
		t.Errorf("after %v: %+v, error %v", time.Since(start), result.Total, err)
	}
}

func TestDatagrams(t *testing.T) {
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	go func() {
		b := make([]byte, 100)
		for {
			n, from, err := conn.ReadFrom(b)
			if err != nil {
				return
			}
			_, _ = conn.WriteTo(append([]byte("dns-a "), b[:n]...), from)
		}
	}()
	s := stream("dns", "edge-1", 50)
	s.Protocol, s.Target = "udp", conn.LocalAddr().(*net.UDPAddr).AddrPort()
	result, records := run(t, plan(s))
	if result.Total.Failed != 0 || result.Total.Completed < 10 || records[0].Pod != "dns-a" {
		t.Errorf("%+v, first record %+v", result.Total, records[0])
	}
}

func TestReadPlanRefuses(t *testing.T) {
	const good = `{"seed":1,"duration":"1s","timeout":"1s","maxConnections":1,"maxConcurrent":1,
		"streams":[{"service":"web","node":"edge-1","source":"10.9.0.1","target":"10.96.0.1:80","rate":1}]}`
	p, err := ReadPlan(strings.NewReader(good))
	if err != nil || p.FirstPort != defaultFirstPort || p.Streams[0].Protocol != "tcp" {
		t.Fatalf("%+v, error %v", p, err)
	}
	for change, want := range map[string]string{
		`"duration":"1s"→"duration":"0s"`:       "duration",
		`"duration":"1s"→"duration":1`:          "duration",
		`"timeout":"1s"→"timeout":"-1s"`:        "timeout",
		`"maxConnections":1→"maxConnections":0`: "maxConnections",
		`"maxConcurrent":1→"maxConcurrent":0`:   "maxConcurrent",
		`"seed":1→"sead":1`:                     "sead",
		`"seed":1→"firstPort":80`:               "firstPort",
		`"rate":1→"rate":-1`:                    "rate",
		`"10.9.0.1"→"::1"`:                      "source",
		`"10.96.0.1:80"→""`:                     "target",
		`"node":"edge-1"→"node":""`:             "node",
		`"rate":1→"rate":1,"protocol":"sctp"`:   "protocol",
		`"streams":[→"streams":[],"streams2":[`: "streams2",
	} {
		before, after, _ := strings.Cut(change, "→")
		text := strings.Replace(good, before, after, 1)
		if text == good {
			t.Fatalf("%s changes nothing", change)
		}
		if _, err := ReadPlan(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one that names %s", change, err, want)
		}
	}
	if _, err := ReadPlan(strings.NewReader(good + "{}")); err == nil {
		t.Error("two values: no error")
	}
	twice := plan(stream("a", "edge-1", 1), stream("a", "edge-1", 1))
	if err := twice.Check(); err == nil {
		t.Error("a stream twice: no error")
	}
}

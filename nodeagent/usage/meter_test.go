// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// machine is a tree of files as the kernel shows them, and a clock.
type machine struct {
	t    testing.TB
	root string
	time time.Time
}

func newMachine(t testing.TB) *machine {
	m := &machine{t: t, root: t.TempDir(), time: time.Unix(1000, 0)}
	m.cpu(0, 0)
	m.network(map[string][2]uint64{"lo": {7, 7}, "eth0": {0, 0}})
	m.write("proc/meminfo", "MemTotal: 8000 kB\nMemFree: 1000 kB\nMemAvailable: 6000 kB\n")
	m.write("sys/class/net/eth0/speed", "1000\n")
	m.write("sys/class/net/eth0/device/vendor", "")
	m.write("sys/class/net/lo/mtu", "65536\n")
	return m
}

func (m *machine) meter(o Options) *Meter {
	o.Proc, o.Sys, o.Cgroup = filepath.Join(m.root, "proc"), filepath.Join(m.root, "sys"), filepath.Join(m.root, "cgroup")
	meter := New(o)
	meter.now = func() time.Time { return m.time }
	return meter
}

func (m *machine) write(name, text string) {
	m.t.Helper()
	path := filepath.Join(m.root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		m.t.Fatal(err)
	}
}

// cpu sets the busy and idle time of two CPUs, in hundredths of a second.
func (m *machine) cpu(busy, idle int) {
	line := fmt.Sprintf("%d 0 0 %d 5 0 0 9 0 0", busy, idle)
	m.write("proc/stat", fmt.Sprintf("cpu %s\ncpu0 %s\ncpu1 %s\nbtime 1\n", line, line, line))
}

func (m *machine) network(bytes map[string][2]uint64) {
	var b strings.Builder
	b.WriteString("Inter-|   Receive\n face |bytes\n")
	for _, name := range slices.Sorted(maps.Keys(bytes)) {
		fmt.Fprintf(&b, "%s: %d 0 0 0 0 0 0 0 %d 0 0 0 0 0 0 0\n", name, bytes[name][0], bytes[name][1])
	}
	m.write("proc/net/dev", b.String())
}

func (m *machine) group(name string, micros uint64) {
	m.write("cgroup/"+name+"/cpu.stat", fmt.Sprintf("usage_usec %d\nuser_usec 1\n", micros))
}

func sample(t *testing.T, m *Meter, pods ...Pod) Sample {
	t.Helper()
	s, err := m.Sample(t.Context(), pods)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func expect(t *testing.T, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateApprox(1e-9, 0), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestNode(t *testing.T) {
	m := newMachine(t)
	meter := m.meter(Options{})
	capacity := map[string]float64{CPU: 2, Memory: 8000 * 1024, Network: 125e6}
	expect(t, "first sample", sample(t, meter), Sample{
		Node: Reading{Used: map[string]float64{Memory: 2000 * 1024}, Capacity: capacity},
	})
	m.cpu(300, 900)
	m.network(map[string][2]uint64{"lo": {1e9, 1e9}, "eth0": {5000, 20000}})
	m.time = m.time.Add(2 * time.Second)
	expect(t, "second sample", sample(t, meter), Sample{
		Node:     Reading{Used: map[string]float64{CPU: 1.5, Memory: 2000 * 1024, Network: 10000}, Capacity: capacity},
		Interval: 2 * time.Second,
	})
}

func TestNamedUplinksWithoutSpeed(t *testing.T) {
	m := newMachine(t)
	meter := m.meter(Options{Devices: []string{"eth0", "veth1"}})
	m.network(map[string][2]uint64{"eth0": {0, 0}, "veth1": {0, 0}})
	sample(t, meter)
	m.network(map[string][2]uint64{"eth0": {100, 0}, "veth1": {50, 60}})
	m.time = m.time.Add(time.Second)
	s := sample(t, meter)
	expect(t, "network", s.Node.Used[Network], 150.0)
	if c, known := s.Node.Capacity[Network]; known {
		t.Errorf("capacity of the network is %v, though veth1 has no speed", c)
	}
}

func TestNodeErrors(t *testing.T) {
	m := newMachine(t)
	m.group("a", 5)
	meter := m.meter(Options{Devices: []string{"eth7"}})
	m.write("proc/meminfo", "MemTotal: 8000 kB\n")
	s, err := meter.Sample(t.Context(), []Pod{{Name: "a", Cgroup: "a"}, {Name: "a"}})
	for _, want := range []string{`no device "eth7"`, "meminfo lacks", `pod "a": named twice`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not say %q", err, want)
		}
	}
	expect(t, "what could be measured", s.Node.Capacity, map[string]float64{CPU: 2})
	expect(t, "missing", s.Missing, map[string]string{"a": "cpu: first sample"})
}

func TestPodFromCgroup(t *testing.T) {
	m := newMachine(t)
	m.group("pods/a", 1_000_000)
	m.write("cgroup/pods/a/cpu.max", "50000 100000\n")
	m.write("cgroup/pods/a/memory.current", "9000\n")
	m.write("cgroup/pods/a/memory.stat", "anon 5000\ninactive_file 3000\n")
	m.write("cgroup/pods/a/memory.max", "20000\n")
	m.group("pods/bare", 0)
	pods := []Pod{{Name: "a", Cgroup: "pods/a"}, {Name: "bare", Cgroup: m.root + "/cgroup/pods/bare"}, {Name: "gone", Cgroup: "pods/gone"}}
	meter := m.meter(Options{})
	s := sample(t, meter, pods...)
	expect(t, "first reading", s.Pods["a"], Reading{
		Used:     map[string]float64{Memory: 6000},
		Capacity: map[string]float64{CPU: 0.5, Memory: 20000},
	})
	m.group("pods/a", 1_800_000)
	m.group("pods/bare", 100_000)
	m.time = m.time.Add(2 * time.Second)
	s = sample(t, meter, pods...)
	expect(t, "cpu of a", s.Pods["a"].Used[CPU], 0.4)
	expect(t, "bare", s.Pods["bare"], Reading{Used: map[string]float64{CPU: 0.05}})
	if _, known := s.Pods["gone"]; known || !strings.Contains(s.Missing["gone"], "no such file") {
		t.Errorf("gone: %+v, missing %q", s.Pods["gone"], s.Missing["gone"])
	}
	m.group("pods/a", 10)
	m.time = m.time.Add(2 * time.Second)
	s = sample(t, meter, pods...)
	expect(t, "after a restart", s.Missing["a"], "cpu: counter was reset")
	if used, known := s.Pods["a"].Used[CPU]; known {
		t.Errorf("cpu of a is %v after a counter reset", used)
	}
}

func TestBadCgroupFiles(t *testing.T) {
	for name, c := range map[string]struct{ file, text, want string }{
		"no usage":   {"cpu.stat", "user_usec 1\n", "has no usage_usec"},
		"not a time": {"cpu.stat", "usage_usec x\n", `parsing "x"`},
		"no period":  {"cpu.max", "max\n", "no quota and period"},
		"zero":       {"cpu.max", "5 0\n", "no quota and period"},
		"memory":     {"memory.current", "-1\n", `parsing "-1"`},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			m.group("a", 5)
			m.write("cgroup/a/"+c.file, c.text)
			s := sample(t, m.meter(Options{}), Pod{Name: "a", Cgroup: "a"})
			if !strings.Contains(s.Missing["a"], c.want) {
				t.Errorf("missing says %q, want %q", s.Missing["a"], c.want)
			}
		})
	}
}

func TestPodFromItsPage(t *testing.T) {
	m := newMachine(t)
	page := "weir_usage_seconds_total{resource=\"workers\"} 10\nweir_capacity{resource=\"workers\"} 4\n"
	down := false
	pod := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if down {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		fmt.Fprint(w, page)
	}))
	defer pod.Close()
	m.group("a", 0)
	a := Pod{Name: "a", Cgroup: "a", Metrics: pod.URL}
	meter := m.meter(Options{})
	expect(t, "first", sample(t, meter, a).Pods["a"], Reading{Capacity: map[string]float64{"workers": 4}})

	down, m.time = true, m.time.Add(time.Second)
	m.group("a", 500_000)
	s := sample(t, meter, a)
	expect(t, "down", s.Pods["a"], Reading{Used: map[string]float64{CPU: 0.5}})
	if !strings.Contains(s.Missing["a"], "503") {
		t.Errorf("missing says %q, want the status", s.Missing["a"])
	}

	// The mean after the gap is over the whole gap.
	down, m.time = false, m.time.Add(time.Second)
	page = strings.Replace(page, "} 10", "} 15", 1)
	s = sample(t, meter, a)
	expect(t, "workers", s.Pods["a"].Used["workers"], 2.5)
	expect(t, "missing", s.Missing, map[string]string{})
}

func TestHostilePages(t *testing.T) {
	release := make(chan struct{})
	pod := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/long":
			fmt.Fprint(w, strings.Repeat("# endless\n", maxPageBytes/10+1))
		case "/slow":
			select {
			case <-release:
			case <-r.Context().Done():
			}
		case "/elsewhere":
			http.Redirect(w, r, "/fine", http.StatusFound)
		case "/fine":
			fmt.Fprint(w, "weir_usage_seconds_total{resource=\"workers\"} 1\n")
		}
	}))
	defer pod.Close()
	defer close(release)
	meter := newMachine(t).meter(Options{Timeout: time.Minute})
	for path, want := range map[string]string{
		"/long":      "longer than",
		"/elsewhere": "redirects are not followed",
		"/empty":     "no weir_usage_seconds_total",
		"/fine":      "first sample",
	} {
		s := sample(t, meter, Pod{Name: path, Metrics: pod.URL + path})
		if !strings.Contains(s.Missing[path], want) {
			t.Errorf("%s: missing says %q, want %q", path, s.Missing[path], want)
		}
	}
	hasty := newMachine(t).meter(Options{Timeout: 50 * time.Millisecond})
	s := sample(t, hasty, Pod{Name: "slow", Metrics: pod.URL + "/slow"})
	if !strings.Contains(s.Missing["slow"], "Timeout exceeded") {
		t.Errorf("a page that does not come: %q", s.Missing["slow"])
	}
	s = sample(t, meter, Pod{Name: "file", Metrics: "file:///etc/passwd"})
	if !strings.Contains(s.Missing["file"], "unsupported protocol scheme") {
		t.Errorf("a file as a page: %q", s.Missing["file"])
	}
}

// Pods that don't answer hold up a sample for about one timeout, not one each.
func TestSilentPodsAreAskedTogether(t *testing.T) {
	pod := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer pod.Close()
	var pods []Pod
	for i := range 16 {
		pods = append(pods, Pod{Name: fmt.Sprint(i), Metrics: pod.URL})
	}
	begin := time.Now()
	s := sample(t, newMachine(t).meter(Options{Timeout: 300 * time.Millisecond}), pods...)
	if took := time.Since(begin); took > 2*time.Second || len(s.Missing) != 16 {
		t.Errorf("%d of 16 silent pods told as missing, in %v", len(s.Missing), took)
	}
}

// Whatever the lengths of the intervals, means times intervals add up to what the
// counter grew by.
func TestMeansAddUp(t *testing.T) {
	dir := t
	rapid.Check(t, func(t *rapid.T) {
		m := newMachine(dir)
		meter := m.meter(Options{})
		pod := Pod{Name: "a", Cgroup: "a"}
		var total uint64
		var sum float64
		for i, growth := range rapid.SliceOfN(rapid.Uint64Range(0, 1e9), 1, 8).Draw(t, "growth") {
			if i > 0 {
				total += growth
				step := rapid.Int64Range(int64(time.Millisecond), int64(time.Minute)).Draw(t, "step")
				m.time = m.time.Add(time.Duration(step))
			}
			m.group("a", total)
			s, err := meter.Sample(dir.Context(), []Pod{pod})
			if err != nil {
				t.Fatal(err)
			}
			sum += s.Pods["a"].Used[CPU] * s.Interval.Seconds()
		}
		if want := float64(total) * microsecond; math.Abs(sum-want) > 1e-9*max(1, want) {
			t.Fatalf("means add up to %v core-seconds, the counter grew by %v", sum, want)
		}
	})
}

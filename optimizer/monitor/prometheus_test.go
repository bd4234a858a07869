// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/edgeweir/weir/internal/testenv"
)

// cadvisor exports what the kubelet does of three pods: a and b take 0.5 and
// 0.25 cores, a sends more than it receives, odd has no memory that is a number.
type cadvisor struct {
	base atomic.Int64 // when the counters began, unix nanoseconds
}

func (c *cadvisor) Describe(chan<- *prometheus.Desc) {}

func (c *cadvisor) Collect(out chan<- prometheus.Metric) {
	seconds := time.Since(time.Unix(0, c.base.Load())).Seconds()
	labels := []string{"namespace", "pod", "container", "interface"}
	emit := func(kind prometheus.ValueType, name string, v float64, values ...string) {
		out <- prometheus.MustNewConstMetric(prometheus.NewDesc(name, "of a test", labels, nil), kind, v, values...)
	}
	cores := map[string]float64{"a": 0.5, "b": 0.25, "odd": 0.1}
	for pod, v := range cores {
		for _, container := range []string{"main", "side", ""} { // "" is the pod's own cgroup: the sum
			share := map[string]float64{"main": 0.75, "side": 0.25, "": 1}[container]
			emit(prometheus.CounterValue, "container_cpu_usage_seconds_total", v*share*seconds, "shop", pod, container, "")
			memory := 1e8 * share
			if pod == "odd" {
				memory = math.NaN()
			}
			emit(prometheus.GaugeValue, "container_memory_working_set_bytes", memory, "shop", pod, container, "")
		}
	}
	for _, link := range []string{"eth0", "lo"} {
		emit(prometheus.CounterValue, "container_network_receive_bytes_total", 1000*seconds, "shop", "a", "", link)
		emit(prometheus.CounterValue, "container_network_transmit_bytes_total", 3000*seconds, "shop", "a", "", link)
	}
}

// station is a Prometheus that scrapes a cadvisor and a real node_exporter.
type station struct {
	url      string
	cadvisor *cadvisor
	exporter *httptest.Server
	stop     func()
}

func newStation(t *testing.T) *station {
	t.Helper()
	t.Parallel() // a server takes 10 s until its first rates
	s := &station{cadvisor: &cadvisor{}}
	s.cadvisor.base.Store(time.Now().Add(-time.Hour).UnixNano())
	registry := prometheus.NewRegistry()
	registry.MustRegister(s.cadvisor)
	s.exporter = httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	t.Cleanup(s.exporter.Close)
	node, address := testenv.FreeAddress(t), testenv.FreeAddress(t)
	testenv.RunNodeExporter(t, node)
	s.url = "http://" + address
	s.stop = testenv.RunPrometheus(t, address, fmt.Sprintf(`
global: {scrape_interval: 250ms, scrape_timeout: 250ms}
scrape_configs:
  - {job_name: cadvisor, metrics_path: /, static_configs: [{targets: [%q]}]}
  - {job_name: node, static_configs: [{targets: [%q]}]}
`, strings.TrimPrefix(s.exporter.URL, "http://"), node))
	return s
}

func (s *station) options() PrometheusOptions {
	o := NewPrometheusOptions()
	o.URL, o.Stale, o.Queries.Window = s.url, 2*time.Second, 5*time.Second
	return o
}

func reader(t *testing.T, o PrometheusOptions) *Prometheus {
	t.Helper()
	p, err := NewPrometheus(o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// until reads until ok accepts a reading.
func until(t *testing.T, p *Prometheus, what string, ok func(*Usage, error) bool) *Usage {
	t.Helper()
	var u *Usage
	var err error
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		if u, err = p.Read(t.Context()); ok(u, err) {
			return u
		}
	}
	t.Fatalf("never: %s; last %+v, %v", what, u, err)
	return nil
}

func about(got, want float64) bool { return math.Abs(got-want) <= 0.05*want }

// complete says whether a reading has all that a station tells.
func complete(u *Usage, err error) bool {
	if err != nil || len(u.Nodes) != 1 {
		return false
	}
	for _, node := range u.Nodes {
		if node["memory"] == 0 || node["cpu"] == 0 {
			return false
		}
	}
	return about(u.Pods["shop/a"]["cpu"], 0.5) && about(u.Pods["shop/b"]["cpu"], 0.25) && u.Pods["shop/a"]["network"] > 0
}

func TestPrometheusReadsExporters(t *testing.T) {
	s := newStation(t)
	u := until(t, reader(t, s.options()), "a complete reading", complete)
	a := u.Pods["shop/a"]
	if !about(a["memory"], 1e8) || !about(a["network"], 3000) {
		t.Errorf("pod a uses %v; want the containers' sum of memory, and the busier direction of eth0", a)
	}
	if _, ok := u.Pods["shop/odd"]["memory"]; ok || u.Dropped[DroppedNaN] != 1 || !about(u.Pods["shop/odd"]["cpu"], 0.1) {
		t.Errorf("NaN is taken, or not counted: %v, dropped %v", u.Pods["shop/odd"], u.Dropped)
	}
	if u.Skew.Abs() > time.Second {
		t.Errorf("skew %s on one machine", u.Skew)
	}
	fast := reader(t, s.options())
	fast.now = func() time.Time { return time.Now().Add(time.Hour) }
	u = until(t, fast, "a reading by a clock that is fast by an hour", complete)
	if (u.Skew + time.Hour).Abs() > time.Second {
		t.Errorf("skew %s, want -1h", u.Skew)
	}
}

func TestPrometheusCounterReset(t *testing.T) {
	s := newStation(t)
	p := reader(t, s.options())
	until(t, p, "a complete reading", complete)
	s.cadvisor.base.Store(time.Now().UnixNano()) // the containers start again
	for range 10 {
		time.Sleep(200 * time.Millisecond)
		if u, err := p.Read(t.Context()); err != nil || u.Pods["shop/a"]["cpu"] > 0.6 || u.Dropped[DroppedNegative] > 0 {
			t.Errorf("after a reset %v, dropped %v, %v", u.Pods["shop/a"], u.Dropped, err)
		}
	}
}

func TestPrometheusStaleTarget(t *testing.T) {
	s := newStation(t)
	p := reader(t, s.options())
	until(t, p, "a complete reading", complete)
	s.exporter.Close()
	u := until(t, p, "stale pods beside fresh nodes", func(u *Usage, err error) bool {
		return err == nil && len(u.Pods) == 0 && len(u.Nodes) == 1 && u.Dropped[DroppedStale] > 0
	})
	t.Logf("dropped %v", u.Dropped)
	s.stop()
	if _, err := p.Read(t.Context()); err == nil || strings.Contains(err.Error(), "query=") {
		t.Errorf("a server that is gone: %v", err)
	}
}

func TestPrometheusWithoutSamples(t *testing.T) {
	testenv.Require(t, testenv.Prometheus)
	address := testenv.FreeAddress(t)
	testenv.RunPrometheus(t, address, "scrape_configs: []")
	o := NewPrometheusOptions()
	o.URL = "http://" + address
	until(t, reader(t, o), "an empty answer that is told", func(u *Usage, err error) bool {
		return u != nil && err != nil && strings.Contains(err.Error(), "no usable sample")
	})
}

func TestPrometheusSlowServer(t *testing.T) {
	slow := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil { // only then is a hang-up noticed
			t.Error(err)
		}
		select {
		case <-time.After(30 * time.Second):
		case <-r.Context().Done():
		}
	}))
	defer slow.Close()
	o := NewPrometheusOptions()
	o.URL, o.Timeout = slow.URL, 300*time.Millisecond
	began := time.Now()
	_, err := reader(t, o).Read(t.Context())
	if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 2*time.Second {
		t.Errorf("after %s: %v", time.Since(began), err)
	}
}

func TestPrometheusLimits(t *testing.T) {
	s := newStation(t)
	until(t, reader(t, s.options()), "a complete reading", complete)
	o := s.options()
	o.MaxSeries = 2
	u, err := reader(t, o).Read(t.Context())
	if !errors.Is(err, ErrTooLarge) || len(u.Pods) != 1 || len(u.Nodes) != 1 {
		t.Errorf("three series of at most two: %+v, %v", u.Pods, err)
	}
	o = s.options()
	o.MaxBytes = 200
	if _, err := reader(t, o).Read(t.Context()); err == nil || !strings.Contains(err.Error(), ErrTooLarge.Error()) {
		t.Errorf("an answer of over 200 bytes: %v", err)
	}
	o = s.options()
	o.Queries.Pods = map[string]string{"cpu": "sum(", "memory": "1", "disk": "-1 * sum by (namespace, pod) (container_memory_working_set_bytes)"}
	u, err = reader(t, o).Read(t.Context())
	for _, want := range []string{"cpu of pods", "memory of pods: an answer of type scalar"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v lacks %q", err, want)
		}
	}
	if u.Dropped[DroppedNegative] != 2 || u.Dropped[DroppedNaN] != 1 {
		t.Errorf("dropped %v, want two negative ones and a NaN", u.Dropped)
	}
}

// What no exporter tells can still come from a server.
func TestPrometheusOddAnswers(t *testing.T) {
	now := float64(time.Now().Unix())
	vector := func(samples string) string {
		return `{"status":"success","data":{"resultType":"vector","result":[` + samples + `]}}`
	}
	answer := map[string]string{
		"time()": fmt.Sprintf(`{"status":"success","data":{"resultType":"scalar","result":[%f,"%f"]}}`, now, now),
		"q": vector(`{"metric":{"namespace":"n","pod":"p"},"value":[1,"+Inf"]},{"metric":{"namespace":"n"},"value":[1,"1"]},` +
			`{"metric":{"namespace":"n","pod":"q","x":"1"},"value":[1,"1"]},{"metric":{"namespace":"n","pod":"q","x":"2"},"value":[1,"2"]}`),
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, answer[r.FormValue("query")])
	}))
	defer server.Close()
	o := NewPrometheusOptions()
	o.URL, o.Queries.Pods, o.Queries.Nodes, o.Queries.Stamps = server.URL, map[string]string{"cpu": "q"}, nil, Stamps{}
	u, err := reader(t, o).Read(t.Context())
	if err != nil || len(u.Pods) != 1 || u.Pods["n/q"]["cpu"] != 1 {
		t.Errorf("pods %v, %v", u.Pods, err)
	}
	for _, reason := range []string{DroppedInfinite, DroppedUnnamed, DroppedTwice} {
		if u.Dropped[reason] != 1 {
			t.Errorf("dropped %v, want one %s", u.Dropped, reason)
		}
	}
	for _, garbage := range []string{"", "{", "null", `{"status":"error","errorType":"internal","error":"boom"}`} {
		answer["time()"] = garbage
		if _, err := reader(t, o).Read(t.Context()); err == nil {
			t.Errorf("%q is taken for a time", garbage)
		}
	}
}

func TestQueriesFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "queries.yaml")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("window: 2m\nlabels: {node: node}\npods: {network: '', gpu: 'sum by (namespace, pod) (rate(gpu_seconds_total[$window]))'}\n")
	q, err := LoadQueries(file)
	if err != nil || q.Labels.Node != "node" || q.Labels.Pod != "pod" || len(q.Pods) != 3 || len(q.Nodes) != 3 {
		t.Errorf("%+v, %v", q, err)
	}
	for _, one := range q.all() {
		if one.resource == "gpu" && !strings.Contains(one.expression, "[2m]") {
			t.Errorf("window in %s", one.expression)
		}
	}
	for text, want := range map[string]string{
		"windo: 2m":               "windo",
		"window: 1ms":             "window: 1ms: 1s to 1h",
		"labels: {pod: 'a b'}":    `labels.pod: "a b"`,
		"labels: {namespace: ''}": `labels.namespace: ""`,
		"pods: {cpu: '', memory: '', network: ''}\nnodes: {cpu: '', memory: '', network: ''}": "at least one expression",
		"\x00": "control characters",
	} {
		write(text)
		if _, err := LoadQueries(file); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), file) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if _, err := LoadQueries(file + ".gone"); err == nil {
		t.Error("a missing file is taken")
	}
}

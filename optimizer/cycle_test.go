// SPDX-License-Identifier: Apache-2.0

package optimizer

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/redis/go-redis/v9"

	"github.com/edgeweir/weir/internal/cluster"
	"github.com/edgeweir/weir/internal/store"
	"github.com/edgeweir/weir/internal/testenv"
	"github.com/edgeweir/weir/internal/wire"
	"github.com/edgeweir/weir/optimizer/monitor"
)

const period = 500 * time.Millisecond

const clusterFile = `
version: 1
name: lab
nodes: [{name: n1}, {name: n2}]
services:
  - name: web
    addresses: [10.96.0.1]
    port: 80
    endpoints: [{pod: a, port: 80}, {pod: b, port: 80}]
pods:
  - {name: a, node: n1, addresses: [10.244.1.1], capacity: {workers: 6}}
  - {name: b, node: n2, addresses: [10.244.2.1], capacity: {workers: 2}}
`

// bench is an optimizer that runs on a real Redis, and what agents would do.
type bench struct {
	t       *testing.T
	address string
	file    string
	store   *store.Store
	total   uint64
	end     time.Time // of the last report, by the agents' clock
	done    chan error
}

func newBench(t *testing.T) *bench {
	t.Helper()
	testenv.Require(t, testenv.Redis)
	b := &bench{t: t, address: testenv.FreeAddress(t), file: filepath.Join(t.TempDir(), "cluster.yaml"), done: make(chan error, 4)}
	b.write(clusterFile)
	s, err := store.Open("lab", b.options())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	b.store = s
	return b
}

func (b *bench) options() store.Options {
	return store.Options{Addresses: []string{b.address}, Timeout: 200 * time.Millisecond}
}

func (b *bench) write(text string) {
	b.t.Helper()
	if err := os.WriteFile(b.file+".new", []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
	if err := os.Rename(b.file+".new", b.file); err != nil {
		b.t.Fatal(err)
	}
}

// run starts the optimizer; it ends with the test.
func (b *bench) run(change func(*Config)) {
	ctx, cancel := context.WithCancel(context.Background())
	config := Config{ClusterFile: b.file, Redis: b.options(), Period: period, StalePeriods: 10, MaxUtilisation: 1, Shortage: "throughput", Admin: "127.0.0.1:0"}
	if change != nil {
		change(&config)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		b.done <- Run(ctx, config, slog.New(slog.DiscardHandler))
	}()
	b.t.Cleanup(func() { cancel(); <-ended })
}

// report is what the agent of node says of one period: each pod's workers are
// busy 40 ms a task.
func (b *bench) report(node string, tasks uint64) {
	b.t.Helper()
	b.total += tasks
	if b.end.IsZero() {
		b.end = time.Now()
	}
	start := b.end
	b.end = b.end.Add(period)
	a := &wire.Arrivals{Version: wire.Version, Node: node, Counters: "c", Start: start, End: b.end,
		Services: map[string]wire.ServiceArrivals{"web": {Tasks: tasks, Total: b.total, Pods: map[string]float64{"a": 0.75 * float64(tasks), "b": 0.25 * float64(tasks)}}},
		Usage:    wire.Usage{Pods: map[string]wire.Reading{}},
	}
	for pod, part := range a.Services["web"].Pods {
		a.Usage.Pods[pod] = wire.Reading{Used: map[string]float64{"workers": part * 0.04 / period.Seconds()}}
	}
	if err := b.store.PutArrivals(b.t.Context(), a, time.Minute); err != nil {
		b.t.Log(err) // Redis may be away
	}
}

// until reports each period and waits for an agent's view that ok accepts.
func (b *bench) until(what string, ok func(store.View) bool) store.View {
	b.t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(period) {
		b.report("n1", 40)
		v, err := b.store.View(b.t.Context(), "n1", "", []string{"web"})
		if err == nil && ok(v) {
			return v
		}
	}
	v, err := b.store.View(b.t.Context(), "n1", "", []string{"web"})
	b.t.Fatalf("never: %s; last %+v, %v", what, v, err)
	return store.View{}
}

func split(v store.View, a float64) bool {
	return v.Pulse != nil && math.Abs(v.Shares["web"].Pods["a"]-a) < 0.02
}

func TestSplitFollowsCapacity(t *testing.T) {
	b := newBench(t)
	testenv.RunRedis(t, b.address)
	snapshots := t.TempDir()
	b.run(func(c *Config) { c.SnapshotDir = snapshots })
	v := b.until("a split of 6:2", func(v store.View) bool { return split(v, 0.75) })
	if v.Shares["web"].Admitted != 1 {
		t.Errorf("admitted %v of a load of 3.2 workers on 8", v.Shares["web"].Admitted)
	}
	first := v.Pulse.Period
	b.write(strings.Replace(clusterFile, "workers: 2", "workers: 18", 1))
	v = b.until("a split of 6:18 after the file has changed", func(v store.View) bool { return split(v, 0.25) })
	b.write("version: [")
	v = b.until("three more periods with a bad file", func(v store.View) bool { return v.Pulse.Period > first+6 })
	if !split(v, 0.25) {
		t.Errorf("a bad file changed the split: %+v", v.Shares)
	}
	if p, err := b.store.Plan(t.Context()); err != nil || p.Dispatch.TaskCosts["web"]["workers"].Value == 0 || len(p.Dispatch.Why) == 0 {
		t.Errorf("plan %+v, %v", p, err)
	}
	if saved, err := filepath.Glob(filepath.Join(snapshots, "*.json")); err != nil || len(saved) < 3 {
		t.Errorf("%d snapshots saved, %v", len(saved), err)
	}
}

func TestOptimizerOutlivesRedis(t *testing.T) {
	b := newBench(t)
	b.run(nil) // before there is a Redis
	time.Sleep(2 * period)
	stop := testenv.RunRedis(t, b.address)
	b.until("a split once Redis is there", func(v store.View) bool { return split(v, 0.75) })
	stop()
	time.Sleep(4 * period)
	testenv.RunRedis(t, b.address) // empty
	b.until("a split after Redis came back empty", func(v store.View) bool { return split(v, 0.75) })
	select {
	case err := <-b.done:
		t.Errorf("the optimizer ended: %v", err)
	default:
	}
}

func TestGarbageInRedisIsOnlyTold(t *testing.T) {
	b := newBench(t)
	testenv.RunRedis(t, b.address)
	raw := redis.NewClient(&redis.Options{Addr: b.address})
	defer raw.Close()
	garbage := func() {
		for _, key := range []string{"arrivals:n1", "arrivals:n2", "split:web", "ratios:n1", "plan", "pulse", "epoch"} {
			if err := raw.Set(t.Context(), "weir:{lab}:"+key, "\x00garbage", 0).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	garbage()
	b.run(nil)
	b.until("a split in spite of garbage", func(v store.View) bool { return split(v, 0.75) })
	garbage()
	b.until("a split after more garbage", func(v store.View) bool { return split(v, 0.75) })
}

func TestSecondOptimizerTakesOver(t *testing.T) {
	b := newBench(t)
	testenv.RunRedis(t, b.address)
	b.run(nil)
	v := b.until("a split of the first", func(v store.View) bool { return split(v, 0.75) })
	b.run(nil)
	b.until("a pulse of the second", func(w store.View) bool { return w.Pulse.Epoch > v.Pulse.Epoch })
	select {
	case err := <-b.done:
		if !errors.Is(err, store.ErrFenced) {
			t.Errorf("the first ended with %v", err)
		}
	case <-time.After(10 * period):
		t.Error("the first goes on writing")
	}
}

func TestConfigNamesTheFlag(t *testing.T) {
	good := Config{ClusterFile: "c", Period: time.Second, StalePeriods: 1, MaxUtilisation: 1, Shortage: "maxmin"}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*Config){
		"--cluster-file":         func(c *Config) { c.ClusterFile = "" },
		"--period: 1ms":          func(c *Config) { c.Period = time.Millisecond },
		"--stale-periods: 0":     func(c *Config) { c.StalePeriods = 0 },
		"--max-utilisation: NaN": func(c *Config) { c.MaxUtilisation = math.NaN() },
		"--max-utilisation: 1.5": func(c *Config) { c.MaxUtilisation = 1.5 },
		`--shortage: "fair"`:     func(c *Config) { c.Shortage = "fair" },
	} {
		c := good
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}

func TestOnlyChangesAreWritten(t *testing.T) {
	now := time.Now()
	life := 10 * period
	p := newPublished()
	all := func(a float64) rows {
		return rows{
			splits: map[string]wire.Share{"web": {Admitted: 1, Pods: map[string]float64{"a": a, "b": 1 - a}}},
			ratios: map[string]map[string]wire.Share{"n1": {"web": {Admitted: 1, Pods: map[string]float64{"a": a, "b": 1 - a}}}},
		}
	}
	count := func(r rows) int { return len(r.splits) + len(r.ratios) }
	step := func(what string, r rows, at time.Time, want int) {
		t.Helper()
		due := p.due(r, at, life)
		if count(due) != want {
			t.Errorf("%s: %d rows, want %d", what, count(due), want)
		}
		p.wrote(due, at)
	}
	step("the first time", all(0.5), now, 2)
	step("nothing new", all(0.5), now.Add(period), 0)
	step("less than the resolution", all(0.5004), now.Add(period), 0)
	step("a change", all(0.6), now.Add(period), 2)
	step("a pod that stops", all(1), now.Add(period), 2)
	step("their life is a third over", all(1), now.Add(period+life/2), 2)
	only := all(1)
	only.ratios = nil
	step("a node without ratios of its own", only, now.Add(period+life/2), 1)
	step("is told once", only, now.Add(period+life/2), 0)
}

func TestModesAndCosts(t *testing.T) {
	c, err := cluster.Parse("c.yaml", []byte(strings.Replace(clusterFile, "    port: 80\n", "    port: 80\n    mode: off\n    costs: {workers: 0.1}\n", 1)))
	if err != nil {
		t.Fatal(err)
	}
	k := newKnowledge(c)
	if s := k.snapshot((&Optimizer{}).settings(), k.costs()); len(s.Services) != 0 || len(s.Pods) != 0 {
		t.Errorf("a service that is off is planned: %+v", s)
	}
	if cost := k.costs()["web"]["workers"]; cost.Source != declaredCost || math.Abs(cost.Value-0.2) > 1e-12 {
		t.Errorf("100 ms of a worker in periods of 500 ms: %+v", cost)
	}
}

func newKnowledge(c *cluster.Cluster) *knowledge {
	return &knowledge{cluster: c, period: period, demand: map[string]monitor.Demand{}, means: monitor.NewMeans(), estimator: monitor.NewEstimator()}
}

func TestMetricsFollowConventions(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := newMetrics(registry, Config{Version: "v"})
	m.decided(&wire.DispatchPlan{})
	m.received("n1", map[string]uint64{"web": 1})
	problems, err := testutil.GatherAndLint(registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

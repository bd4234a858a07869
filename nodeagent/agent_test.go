// SPDX-License-Identifier: Apache-2.0

package nodeagent

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/edgeweir/weir/internal/store"
	"github.com/edgeweir/weir/internal/testenv"
	"github.com/edgeweir/weir/internal/wire"
	"github.com/edgeweir/weir/nodeagent/ipvs"
)

// ownNamespaces is set in the test's process that has them.
const ownNamespaces = "WEIR_TEST_OWN_NAMESPACES"

// An agent's goroutines run on any thread, so the namespaces that it works in
// must be those of the whole process: the test runs itself again in new ones.
func TestAgentOnARealKernel(t *testing.T) {
	testenv.Require(t, testenv.Root, testenv.IPVS, testenv.Dummy, testenv.NFTables, testenv.BTF, testenv.Redis)
	if os.Getenv(ownNamespaces) == "" {
		cmd := exec.Command("unshare", "--net", "--mount", os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), ownNamespaces+"=1")
		out, err := cmd.CombinedOutput()
		t.Logf("%s", out)
		if err != nil {
			t.Fatal(err)
		}
		return
	}
	for _, command := range []string{
		"mount -t bpf bpf /sys/fs/bpf", "ip link set lo up", "ip link add uplink type dummy",
		"ip addr add 10.0.0.1/24 dev uplink", "ip link set uplink up",
		// The kernel would load them one by one, in seconds each when emulated.
		"modprobe --all --quiet nf_tables nft_ct nft_masq nft_fib_inet nft_reject_inet nft_chain_nat ip_vs_wrr",
	} {
		run(t, strings.Fields(command)...)
	}
	b := newBench(t)
	b.startAgent(agentPeriod, patient)
	b.weights(t, "equal weights before the optimizer speaks", 1, 1)
	b.publish(t, 1, 0.75)
	b.weights(t, "the optimizer's ratios", 3, 1)
	t.Run("bad input", b.badInput)
	t.Run("restart", b.restart)
	t.Run("flush", b.flush)
	t.Run("silence", b.silence)
}

func run(t *testing.T, command ...string) {
	t.Helper()
	if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", strings.Join(command, " "), err, out)
	}
}

const agentFile = `
version: 1
name: lab
nodes: [{name: n1, podCIDRs: [10.244.1.0/24]}]
services:
  - name: web
    addresses: [10.96.0.1]
    port: 80
    scheduler: wrr
    endpoints: [{pod: a, port: 80}, {pod: b, port: 80}]
pods:
  - {name: a, node: n1, addresses: [10.244.1.1]}
  - {name: b, node: n1, addresses: [10.244.1.2]}
`

const agentPeriod = time.Second

// bench is one agent with a real Redis in the test's own namespaces.
type bench struct {
	t     *testing.T // of the whole test
	file  string
	redis string
	store *store.Store
	table *ipvs.Table
	log   *logBuffer
	stop  func() error
}

// logBuffer is a log that can be searched while it is written.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logBuffer) has(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.text.String(), text)
}

func (l *logBuffer) clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Reset()
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{t: t, file: filepath.Join(t.TempDir(), "cluster.yaml"), redis: testenv.StartRedis(t), log: &logBuffer{}}
	b.write(t, agentFile)
	var err error
	if b.store, err = store.Open("lab", store.Options{Addresses: []string{b.redis}, Timeout: time.Second}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.store.Close() })
	if b.table, err = ipvs.Open(slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.table.Close)
	return b
}

func (b *bench) write(t *testing.T, text string) {
	t.Helper()
	if err := os.WriteFile(b.file+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(b.file+".new", b.file); err != nil {
		t.Fatal(err)
	}
}

// patient is a stale limit that no part of the test reaches, short one that does.
const patient, short = 600, 3

// startAgent runs an agent until stop is called, or the whole test ends, and waits
// until it has taken hold of the table.
func (b *bench) startAgent(period time.Duration, stalePeriods int) {
	config := Config{
		Node: "n1", ClusterFile: b.file, Redis: store.Options{Addresses: []string{b.redis}, Timeout: time.Second},
		Period: period, StalePeriods: stalePeriods, Admin: "127.0.0.1:0", Attach: "auto", Version: "test",
	}
	b.log.clear()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- Run(ctx, config, slog.New(slog.NewTextHandler(io.MultiWriter(b.log, b.t.Output()), nil)))
	}()
	b.stop = sync.OnceValue(func() error { cancel(); return <-done })
	stop := b.stop
	b.t.Cleanup(func() {
		if err := stop(); err != nil {
			b.t.Error(err)
		}
	})
	b.logs(b.t, "admin port")
}

// publish is what the optimizer does in one period: pod a gets the ratio y.
func (b *bench) publish(t *testing.T, period int64, y float64) {
	t.Helper()
	d := &store.Dispatch{Epoch: 1, Period: period, Life: time.Minute,
		Splits: []wire.Split{{Version: wire.Version, Service: "web", Share: wire.Share{Admitted: 1, Pods: map[string]float64{"a": y, "b": 1 - y}}}},
		Plan:   wire.Plan{Version: wire.Version, Epoch: 1, Period: period, At: time.Now(), Seconds: agentPeriod.Seconds()},
	}
	if err := b.store.PutDispatch(t.Context(), d); err != nil {
		t.Fatal(err)
	}
}

// now returns the weights of pods a and b in the kernel.
func (b *bench) now() (a, other uint32, err error) {
	services, err := b.table.Dump(context.Background())
	if err != nil {
		return 0, 0, err
	}
	if len(services) != 1 || len(services[0].Destinations) != 2 {
		return 0, 0, fmt.Errorf("%d virtual servers", len(services))
	}
	for _, d := range services[0].Destinations {
		if d.Address.String() == "10.244.1.1" {
			a = d.Weight
		} else {
			other = d.Weight
		}
	}
	return a, other, nil
}

// weights waits until the kernel's weights stand as a to other.
func (b *bench) weights(t *testing.T, what string, a, other uint32) {
	t.Helper()
	var gotA, gotB uint32
	var err error
	for end := time.Now().Add(60 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		gotA, gotB, err = b.now()
		if err == nil && gotA > 0 && gotA*other == gotB*a {
			return
		}
	}
	t.Fatalf("never %s: weights %d:%d (%v), want %d:%d", what, gotA, gotB, err, a, other)
}

func (b *bench) logs(t *testing.T, want string) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if b.log.has(want) {
			return
		}
	}
	t.Errorf("the log never says %q", want)
}

func (b *bench) badInput(t *testing.T) {
	for want, text := range map[string]string{
		"cluster.yaml:1: ":            "version: [",
		"unknown field":               strings.Replace(agentFile, "scheduler:", "schedule:", 1),
		"at least one pod":            strings.Replace(agentFile, "[{pod: a, port: 80}, {pod: b, port: 80}]", "[]", 1),
		"10.0.0.1 is held by device ": strings.Replace(agentFile, "10.96.0.1]", "10.0.0.1]", 1),
		"this node is not in the":     strings.Replace(strings.ReplaceAll(agentFile, "node: n1", "node: n9"), "{name: n1,", "{name: n9,", 1),
		"an address and port that no": strings.Replace(agentFile, "pods:\n", "  - {name: dns, addresses: [10.96.0.1], port: 80, endpoints: [{pod: a, port: 53}]}\npods:\n", 1),
	} {
		b.write(t, text)
		b.logs(t, want)
	}
	raw := redis.NewClient(&redis.Options{Addr: b.redis})
	defer raw.Close()
	if err := raw.Set(t.Context(), "weir:{lab}:split:web", `{"version": 9}`, 0).Err(); err != nil {
		t.Fatal(err)
	}
	b.logs(t, "redis key weir:{lab}:split:web: version: 9: this build reads 1 to 2")
	if a, other, err := b.now(); err != nil || a != 3*other {
		t.Errorf("bad input changed the weights to %d:%d, %v", a, other, err)
	}
	b.write(t, agentFile)
}

func (b *bench) restart(t *testing.T) {
	if err := b.stop(); err != nil {
		t.Fatal(err)
	}
	if a, other, err := b.now(); err != nil || a != 3*other {
		t.Errorf("a stopped agent left weights %d:%d, %v", a, other, err)
	}
	if err := b.store.PutArrivals(t.Context(), &wire.Arrivals{Version: 1, Node: "n1", Start: time.Unix(1, 0), End: time.Unix(2, 0)}, time.Millisecond); err != nil {
		t.Fatal(err)
	}
	b.startAgent(agentPeriod, patient)
	for end := time.Now().Add(4 * agentPeriod); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if a, other, err := b.now(); err != nil || a != 3*other {
			t.Fatalf("a new agent changed the weights to %d:%d, %v", a, other, err)
		}
	}
	if reports, err := b.store.Arrivals(t.Context(), []string{"n1"}); err != nil || reports["n1"].Agent != "test" {
		t.Errorf("the new agent's report: %+v, %v", reports, err)
	}
}

func (b *bench) flush(t *testing.T) {
	if err := b.stop(); err != nil {
		t.Fatal(err)
	}
	b.startAgent(time.Hour, patient) // no period ends: only the sentinel can see it
	run(t, "ipvsadm", "-C")
	began := time.Now()
	b.weights(t, "the table after a flush", 3, 1)
	t.Logf("rebuilt after %s", time.Since(began).Round(time.Millisecond))
	b.logs(t, "virtual servers are gone")
}

func (b *bench) silence(t *testing.T) {
	if err := b.stop(); err != nil {
		t.Fatal(err)
	}
	b.startAgent(agentPeriod, short)
	b.publish(t, 2, 0.75)
	b.weights(t, "equal weights after the stale limit", 1, 1)
	b.publish(t, 3, 0.75)
	b.weights(t, "the ratios when the optimizer is back", 3, 1)
}

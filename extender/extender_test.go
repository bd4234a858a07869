// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/edgeweir/weir/internal/store"
	"github.com/edgeweir/weir/internal/wire"
)

// apiServer stands in for the API server: it notes what is asked of it, and
// tells Bound what a test has bound.
type apiServer struct {
	mu                   sync.Mutex
	nominated, explained map[string]string // pod name → node, reason
	bound                map[string]chan string
}

func newAPIServer() *apiServer {
	return &apiServer{nominated: map[string]string{}, explained: map[string]string{}, bound: map[string]chan string{}}
}

func (a *apiServer) Nominate(_ context.Context, pod podRef, node string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.nominated[pod.Name] = node
	return nil
}

func (a *apiServer) Explain(_ context.Context, pod podRef, reason, _ string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.explained[pod.Name] = reason
	return nil
}

func (a *apiServer) channel(pod string) chan string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.bound[pod] == nil {
		a.bound[pod] = make(chan string, 1)
	}
	return a.bound[pod]
}

func (a *apiServer) Bound(ctx context.Context, pod podRef) (string, error) {
	select {
	case node := <-a.channel(pod.Name):
		return node, nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

func (a *apiServer) seen(m map[string]string, pod string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return m[pod]
}

// replica is an extender that runs for the length of a test.
type replica struct {
	*Extender
	api *apiServer
}

func start(t testing.TB, address string, change ...func(*Config)) *replica {
	t.Helper()
	config := Config{
		Cluster: "lab", Listen: "127.0.0.1:0", Admin: "127.0.0.1:0", ClaimWait: 200 * time.Millisecond, Hold: time.Second,
		Refresh: 50 * time.Millisecond, MaxBody: 1 << 20, Nominate: true,
		Redis: store.Options{Addresses: []string{address}, Timeout: time.Second},
	}
	for _, c := range change {
		c(&config)
	}
	s, err := store.Open(config.Cluster, config.Redis)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	api, registry := newAPIServer(), prometheus.NewRegistry()
	e := newExtender(ctx, config, slog.New(slog.DiscardHandler), s, api, registry)
	ended := make(chan error, 1)
	go func() { ended <- e.run(registry) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		s.Close()
	})
	eventually(t, "the extender listens", func() bool { return e.ready() == nil })
	return &replica{Extender: e, api: api}
}

func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if holds() {
			return
		}
	}
	t.Fatalf("not within 10 s: %s", what)
}

// put writes directives and waits until the replicas have read them.
func put(t testing.TB, directives []wire.Directive, replicas ...*replica) {
	t.Helper()
	if _, err := replicas[0].store.PutDirectives(t.Context(), 1, directives); err != nil {
		t.Fatal(err)
	}
	for _, r := range replicas {
		eventually(t, "the directives are read", func() bool {
			for _, d := range directives {
				e := r.book.Load().owners[d.Owner]
				if e == nil || len(e.Slots) != len(d.Slots) {
					return false
				}
				for i := range d.Slots {
					if e.Slots[i].ID != d.Slots[i].ID || !e.Slots[i].Deadline.Equal(d.Slots[i].Deadline) {
						return false
					}
				}
			}
			return true
		})
	}
}

// directive tells owner's pods to move from edge-0 to edge-1, edge-2, … within life.
func directive(owner string, slots int, life time.Duration) wire.Directive {
	d := wire.Directive{Version: wire.Version, Epoch: 1, At: time.Now().UTC(), Owner: owner, Workload: "shop/Deployment/" + owner}
	for i := range slots {
		d.Slots = append(d.Slots, wire.Slot{ID: strconv.Itoa(i), Node: fmt.Sprintf("edge-%d", i+1), Reason: wire.ForMigration,
			Source: "edge-0", Deadline: d.At.Add(life)})
	}
	return d
}

func podOf(owner, name string) *corev1.Pod {
	yes := true
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "shop", UID: types.UID("uid-" + name)}}
	if owner != "" {
		p.OwnerReferences = []metav1.OwnerReference{{UID: "other"}, {UID: types.UID(owner), Controller: &yes}}
	}
	return p
}

// ask sends a call in the scheduler's own types and returns the nodes that are
// left, and the reason by node for the others.
func (r *replica) ask(t testing.TB, pod *corev1.Pod, nodes ...string) ([]string, map[string]string) {
	t.Helper()
	body, err := json.Marshal(extenderv1.ExtenderArgs{Pod: pod, NodeNames: &nodes})
	if err != nil {
		t.Fatal(err)
	}
	var result extenderv1.ExtenderFilterResult
	post(t, r.handler(), "/filter", body, &result)
	if result.NodeNames == nil || len(result.FailedNodes) > 0 || result.Error != "" {
		t.Fatalf("answer %+v", result)
	}
	return *result.NodeNames, result.FailedAndUnresolvableNodes
}

func post(t testing.TB, h http.Handler, path string, body []byte, into any) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, bytes.NewReader(body)))
	if w.Code != http.StatusOK {
		t.Fatalf("POST %s: %d %s", path, w.Code, w.Body)
	}
	if err := json.Unmarshal(w.Body.Bytes(), into); err != nil {
		t.Fatal(err)
	}
}

// claimsOf returns slot → "pod state" as Redis has it.
func (r *replica) claimsOf(t *testing.T, owner string) map[string]string {
	t.Helper()
	ds, err := r.store.Directives(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, d := range ds {
		for _, s := range d.Slots {
			if d.Owner == owner && s.Claim != nil {
				got[s.ID] = strings.TrimSpace(strings.TrimPrefix(s.Claim.Name, "shop/") + " " + s.Claim.State)
			}
		}
	}
	return got
}

// suspend stops the redis-server at address until the returned function.
func suspend(t testing.TB, address string) (resume func()) {
	t.Helper()
	raw := redis.NewClient(&redis.Options{Addr: address})
	defer raw.Close()
	info, err := raw.Info(t.Context(), "server").Result()
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(info, "process_id:")
	pid, err := strconv.Atoi(strings.TrimSpace(strings.SplitN(rest, "\n", 2)[0]))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	resumed := false
	resume = func() {
		if !resumed {
			resumed = true
			syscall.Kill(pid, syscall.SIGCONT)
		}
	}
	t.Cleanup(resume)
	return resume
}

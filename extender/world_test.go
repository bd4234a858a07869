// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/edgeweir/weir/internal/store"
	"github.com/edgeweir/weir/internal/wire"
)

// world is a cluster with an extender in it, and a Redis.
type world struct {
	client   kubernetes.Interface
	store    *store.Store
	extender *Extender
}

// schedulerConfig returns a file for kube-scheduler from one of deploy/scheduler,
// with the places of a test put in.
func schedulerConfig(t testing.TB, example, url, ca, kubeconfig string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "deploy", "scheduler", example))
	if err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer(
		"https://weir-extender.weir-system.svc:9443", url,
		"/etc/kubernetes/weir/ca.crt", ca, "/etc/weir/ca.crt", ca,
		"/etc/kubernetes/scheduler.conf", kubeconfig,
		"leaderElect: true", "leaderElect: false",
	).Replace(string(data))
	if !strings.Contains(text, "clientConnection:") { // meant for a pod of the cluster
		text += "clientConnection:\n  kubeconfig: " + kubeconfig + "\n"
	}
	path := filepath.Join(t.TempDir(), "scheduler.yaml")
	write(t, map[string][]byte{path: []byte(text)})
	return path
}

// serverFiles writes a certificate for 127.0.0.1 and returns the flags' files.
func serverFiles(t testing.TB) (cert, key, ca string) {
	dir, a := t.TempDir(), newAuthority(t)
	cert, key, ca = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"), filepath.Join(dir, "ca.crt")
	c, k := a.sign(2)
	write(t, map[string][]byte{cert: c, key: k, ca: a.pem})
	return cert, key, ca
}

// launch runs an extender against a real API server for the length of a test.
func launch(t testing.TB, config Config) *Extender {
	t.Helper()
	logger := slog.New(slog.DiscardHandler)
	if testing.Verbose() {
		logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	ctx, cancel := context.WithCancel(t.Context())
	e, run, err := prepare(ctx, config, logger)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- run() }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	eventually(t, "the extender listens", func() bool { return e.ready() == nil })
	return e
}

// deploy creates n Deployments of two pods each and waits until all run.
func (w *world) deploy(t *testing.T, namespace string, n int, scheduler string) {
	t.Helper()
	ctx := t.Context()
	if _, err := w.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		name := fmt.Sprint("web-", i)
		labels := map[string]string{"app": name}
		two := int32(2)
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.DeploymentSpec{
			Replicas: &two, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				SchedulerName: scheduler,
				Containers: []corev1.Container{{Name: "web", Image: "web:1", Resources: corev1.ResourceRequirements{
					Requests: corev1.ResourceList{"cpu": resource.MustParse("100m")}}}},
			}}}}
		if _, err := w.client.AppsV1().Deployments(namespace).Create(ctx, d, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(200 * time.Millisecond) {
		running := 0
		for _, p := range w.list(t, namespace, "") {
			if p.Status.Phase == corev1.PodRunning {
				running++
			}
		}
		if running == 2*n {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d of %d pods run after a minute", running, 2*n)
		}
	}
}

func (w *world) list(t *testing.T, namespace, selector string) []corev1.Pod {
	t.Helper()
	pods, err := w.client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		t.Fatal(err)
	}
	return pods.Items
}

// move is one directive with the pod that is evicted for it.
type move struct {
	app    string
	owner  string
	slot   wire.Slot
	before []string // UIDs of the pods before
	at     time.Time
	// What came of it.
	landed string
	took   time.Duration
}

// moves directs one pod of each Deployment from web-from up to web-to to
// target(i), for life, and evicts it.
func (w *world) moves(t *testing.T, namespace string, from, to int, life time.Duration, target func(i int) string) []*move {
	t.Helper()
	var all []*move
	var directives []wire.Directive
	victims := map[*move]corev1.Pod{}
	now := time.Now().UTC()
	for i := from; i < to; i++ {
		m := &move{app: fmt.Sprint("web-", i)}
		pods := w.list(t, namespace, "app="+m.app)
		for _, p := range pods {
			m.before = append(m.before, string(p.UID))
		}
		m.owner = string(metav1.GetControllerOf(&pods[0]).UID)
		m.slot = wire.Slot{ID: "m", Node: target(i), Reason: wire.ForMigration, Source: pods[0].Spec.NodeName, Deadline: now.Add(life)}
		victims[m] = pods[0]
		directives = append(directives, wire.Directive{Version: wire.Version, Epoch: 1, At: now, Owner: m.owner,
			Workload: namespace + "/Deployment/" + m.app, Slots: []wire.Slot{m.slot}})
		all = append(all, m)
	}
	if heard, err := w.store.PutDirectives(t.Context(), 1, directives); err != nil || heard == 0 {
		t.Fatalf("%d heard of the directives, %v", heard, err)
	}
	for m, p := range victims {
		uid := p.UID
		m.at = time.Now()
		err := w.client.PolicyV1().Evictions(namespace).Evict(t.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: p.Name, Namespace: namespace},
			DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// settle waits until the replacements are bound, for limit at most.
func (w *world) settle(t *testing.T, namespace string, all []*move, limit time.Duration) {
	t.Helper()
	watch, err := w.client.CoreV1().Pods(namespace).Watch(t.Context(), metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	end := time.After(limit)
	for left := len(all); left > 0; {
		select {
		case <-end:
			return
		case event, ok := <-watch.ResultChan():
			if !ok {
				t.Fatal("the watch broke off")
			}
			p, ok := event.Object.(*corev1.Pod)
			if !ok || p.Spec.NodeName == "" {
				continue
			}
			for _, m := range all {
				if m.landed == "" && p.Labels["app"] == m.app && !slices.Contains(m.before, string(p.UID)) {
					m.landed, m.took = p.Spec.NodeName, time.Since(m.at)
					left--
				}
			}
		}
	}
}

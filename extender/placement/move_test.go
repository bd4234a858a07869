// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/edgeweir/weir/internal/wire"
)

// deploy creates n Deployments of two pods each and waits until all run.
func (w *world) deploy(t *testing.T, namespace string, n int, scheduler string) {
	t.Helper()
	ctx := t.Context()
	if err := w.Namespace(ctx, namespace); err != nil {
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

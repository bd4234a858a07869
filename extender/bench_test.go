// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/edgeweir/weir/internal/testenv"
	"github.com/edgeweir/weir/internal/wire"
)

// offered is how many nodes the scheduler offers of 500 by default: 46%.
const offered = 230

// fullPod is a pod as the scheduler sends one: with what the API server adds.
func fullPod(owner, name string) *corev1.Pod {
	p := podOf(owner, name)
	p.Labels = map[string]string{"app": "web", "pod-template-hash": "5d4f8c7b9"}
	fields := `{"f:metadata":{"f:generateName":{},"f:labels":{".":{},"f:app":{},"f:pod-template-hash":{}},"f:ownerReferences":{".":{},"k:{\"uid\":\"x\"}":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"web\"}":{".":{},"f:image":{},"f:imagePullPolicy":{},"f:name":{},"f:resources":{".":{},"f:limits":{".":{},"f:cpu":{},"f:memory":{}},"f:requests":{".":{},"f:cpu":{},"f:memory":{}}}}}}}`
	p.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kube-controller-manager", Operation: "Update", FieldsV1: metav1.NewFieldsV1(fields)}}
	quantity := corev1.ResourceList{"cpu": resource.MustParse("100m"), "memory": resource.MustParse("64Mi")}
	for _, c := range []string{"web", "sidecar"} {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: c, Image: "registry.example/shop/" + c + ":1.2.3",
			Resources:      corev1.ResourceRequirements{Requests: quantity, Limits: quantity},
			Env:            []corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "B", Value: "2"}},
			VolumeMounts:   []corev1.VolumeMount{{Name: "kube-api-access", ReadOnly: true, MountPath: "/var/run/secrets/kubernetes.io/serviceaccount"}},
			LivenessProbe:  &corev1.Probe{PeriodSeconds: 10},
			ReadinessProbe: &corev1.Probe{PeriodSeconds: 5}})
	}
	return p
}

// callBody returns a filter call of pod that offers edge-0 to edge-229.
func callBody(tb testing.TB, pod *corev1.Pod) []byte {
	tb.Helper()
	names := make([]string, offered)
	for i := range names {
		names[i] = fmt.Sprintf("edge-%d", i)
	}
	body, err := json.Marshal(extenderv1.ExtenderArgs{Pod: pod, NodeNames: &names})
	if err != nil {
		tb.Fatal(err)
	}
	return body
}

// BenchmarkCall measures the time in the handler by what the pod carries and by
// whether Redis answers. With WEIR_BENCH_OUT it writes the percentiles there.
func BenchmarkCall(b *testing.B) {
	address := testenv.StartRedis(b)
	r := start(b, address, func(c *Config) { c.ClaimWait, c.Hold, c.Refresh = 2*time.Millisecond, time.Hour, time.Second })
	ds := []wire.Directive{directive("far", 1, time.Hour)}
	ds[0].Slots[0].Node = "edge-499"
	claimed := directive("web", 1, time.Hour)
	put(b, append(ds, claimed), r)
	r.ask(b, podOf("web", "web-held"), "edge-1")
	r.ask(b, podOf("far", "far-held"), "edge-1")
	serial := 0
	fresh := func(prefix string) func() []byte { // a new owner with one slot for each call
		var bodies [][]byte
		return func() []byte {
			if len(bodies) == 0 {
				var batch []wire.Directive
				for range 500 {
					serial++
					owner := fmt.Sprint(prefix, serial)
					batch = append(batch, directive(owner, 1, time.Hour))
					bodies = append(bodies, callBody(b, fullPod(owner, owner+"-pod")))
				}
				put(b, batch, r)
			}
			next := bodies[0]
			bodies = bodies[1:]
			return next
		}
	}
	same := func(body []byte) func() []byte { return func() []byte { return body } }
	cases := []struct {
		name string
		next func() []byte
	}{
		{"none", same(callBody(b, fullPod("db", "db-1")))},
		{"target", same(callBody(b, fullPod("web", "web-held")))},
		{"withheld", same(callBody(b, fullPod("far", "far-held")))},
		{"claim", fresh("up")},
	}
	results := map[string]map[string]float64{}
	for _, c := range cases {
		b.Run("up/"+c.name, func(b *testing.B) { results["up/"+c.name] = measure(b, r.handler(), c.next) })
	}
	hanging := fresh("down") // its directives are written before Redis hangs
	first := hanging()
	resume := suspend(b, address)
	left := [][]byte{first}
	for i := range cases[:3] {
		c := cases[i]
		b.Run("hanging/"+c.name, func(b *testing.B) { results["hanging/"+c.name] = measure(b, r.handler(), c.next) })
	}
	b.Run("hanging/claim", func(b *testing.B) {
		results["hanging/claim"] = measure(b, r.handler(), same(left[0]))
	})
	resume()
	testenv.Record(b, "handler", results)
}

func measure(b *testing.B, h http.Handler, next func() []byte) map[string]float64 {
	took := make([]time.Duration, 0, b.N)
	for b.Loop() {
		b.StopTimer()
		body := next()
		request := httptest.NewRequest(http.MethodPost, "/filter", bytes.NewReader(body))
		w := httptest.NewRecorder()
		b.StartTimer()
		before := time.Now()
		h.ServeHTTP(w, request)
		took = append(took, time.Since(before))
		if w.Code != http.StatusOK {
			b.Fatalf("%d %s", w.Code, w.Body)
		}
	}
	slices.Sort(took)
	at := func(q float64) float64 { return took[min(int(q*float64(len(took))), len(took)-1)].Seconds() * 1000 }
	got := map[string]float64{"calls": float64(len(took)), "p50Millis": at(0.5), "p99Millis": at(0.99), "maxMillis": at(1)}
	b.ReportMetric(got["p99Millis"], "p99-ms")
	return got
}

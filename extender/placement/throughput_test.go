// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/edgeweir/weir/internal/testenv"
)

// BenchmarkScheduling measures how many pods a second the scheduler binds without
// an extender, with one that filters, and with one that prioritizes too, in turn.
func BenchmarkScheduling(b *testing.B) {
	const rounds, pods = 3, 1500
	w := newWorld(b)
	filter := strings.Replace(w.config(b, "default.yaml"), "clientConnection:\n", "clientConnection:\n  qps: 5000\n  burst: 5000\n", 1)
	without, _, _ := strings.Cut(filter, "extenders:")
	kinds := []struct{ name, config string }{
		{"without", without},
		{"filter", filter},
		{"filter and prioritize", strings.Replace(filter, "filterVerb: filter\n", "filterVerb: filter\n    prioritizeVerb: prioritize\n    weight: 1\n", 1)},
	}
	rates := map[string][]float64{}
	for b.Loop() {
		for range rounds {
			for _, k := range kinds {
				rates[k.name] = append(rates[k.name], w.bindRate(b, k.config, pods))
			}
		}
	}
	median := func(of []float64) float64 { return slices.Sorted(slices.Values(of))[len(of)/2] }
	results := map[string]any{"nodes": size, "pods": pods, "podsPerSecond": rates}
	for _, k := range kinds[1:] {
		ratio := median(rates[k.name]) / median(rates["without"])
		results["ratio of "+k.name] = ratio
		b.ReportMetric(ratio, strings.ReplaceAll(k.name, " ", "-")+"-ratio")
	}
	testenv.Record(b, "scheduling", results)
}

// bindRate lets a scheduler of config bind pods that are there already, and
// returns how many it bound a second between the first fifth and the last tenth.
func (w *world) bindRate(b *testing.B, config string, pods int) float64 {
	b.Helper()
	w.rounds++
	name := fmt.Sprint("load-", w.rounds)
	w.pend(b, name, pods)
	scheduler := w.schedule(b, name, config)
	defer scheduler.Stop()
	var from, to time.Time
	var first, last int
	for end := time.Now().Add(2 * time.Minute); last < pods*9/10; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			b.Fatalf("%d of %d pods are bound after 2 minutes", last, pods)
		}
		last, to = bound(b, scheduler.Metrics), time.Now()
		if from.IsZero() && last >= pods/5 {
			first, from = last, to
		}
	}
	now := int64(0)
	err := w.client.CoreV1().Pods(name).DeleteCollection(b.Context(), metav1.DeleteOptions{GracePeriodSeconds: &now}, metav1.ListOptions{})
	if err != nil {
		b.Fatal(err)
	}
	return float64(last-first) / to.Sub(from).Seconds()
}

// bound returns how many pods a scheduler has bound, as its metrics tell it.
func bound(b *testing.B, metrics string) int {
	b.Helper()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	response, err := client.Get(metrics)
	if err != nil {
		b.Fatal(err)
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		if line := lines.Text(); strings.HasPrefix(line, "scheduler_schedule_attempts_total") && strings.Contains(line, `result="scheduled"`) {
			count, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
			if err != nil {
				b.Fatalf("%q: %v", line, err)
			}
			return int(count)
		}
	}
	return 0
}

// pend creates pods that no scheduler has seen yet.
func (w *world) pend(b *testing.B, namespace string, pods int) {
	b.Helper()
	if err := w.Namespace(b.Context(), namespace); err != nil {
		b.Fatal(err)
	}
	group, ctx := errgroup.WithContext(context.Background())
	group.SetLimit(20)
	for i := range pods {
		group.Go(func() error {
			_, err := w.client.CoreV1().Pods(namespace).Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("p-", i)},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web:1", Resources: corev1.ResourceRequirements{
					Requests: corev1.ResourceList{"cpu": resource.MustParse("10m")}}}}}}, metav1.CreateOptions{})
			return err
		})
	}
	if err := group.Wait(); err != nil {
		b.Fatal(err)
	}
}

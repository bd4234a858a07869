// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// BenchmarkScheduling measures how many pods a second the scheduler binds without
// an extender, with one that filters, and with one that prioritizes too, in turn.
func BenchmarkScheduling(b *testing.B) {
	const rounds, pods = 5, 1500
	w, config := connectExtender(b, "default.yaml")
	plain, err := os.ReadFile(config)
	if err != nil {
		b.Fatal(err)
	}
	with := strings.Replace(string(plain), "clientConnection:\n", "clientConnection:\n  qps: 5000\n  burst: 5000\n", 1)
	without, _, _ := strings.Cut(with, "extenders:")
	kinds := []struct{ name, config string }{
		{"without", without},
		{"filter", strings.Replace(with, "    prioritizeVerb: prioritize\n", "", 1)},
		{"filter and prioritize", with},
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
	writeResults(b, "scheduling", results)
}

// bindRate lets a scheduler of config bind pods that are there already, and
// returns how many it bound a second between the first and the last tenth.
func (w *world) bindRate(b *testing.B, config string, pods int) float64 {
	b.Helper()
	file := filepath.Join(b.TempDir(), "scheduler.yaml")
	write(b, map[string][]byte{file: []byte(config)})
	namespace := w.namespace(b)
	w.pend(b, namespace, pods)
	log, stop := runScheduler(b, file)
	defer stop()
	var bound []time.Time
	for end := time.Now().Add(2 * time.Minute); len(bound) < pods; time.Sleep(250 * time.Millisecond) {
		if time.Now().After(end) {
			b.Fatalf("%d of %d pods are bound after 2 minutes", len(bound), pods)
		}
		bound = bindings(b, log)
	}
	now := int64(0)
	err := w.client.CoreV1().Pods(namespace).DeleteCollection(b.Context(), metav1.DeleteOptions{GracePeriodSeconds: &now}, metav1.ListOptions{})
	if err != nil {
		b.Fatal(err)
	}
	from, to := pods/10, pods*9/10
	return float64(to-from) / bound[to].Sub(bound[from]).Seconds()
}

// bindings returns when pods were bound, as the scheduler's log tells it.
func bindings(b *testing.B, log string) []time.Time {
	b.Helper()
	data, err := os.ReadFile(log)
	if err != nil {
		b.Fatal(err)
	}
	var bound []time.Time
	const stamp = "0102 15:04:05.000000"
	for line := range strings.Lines(string(data)) {
		if strings.Contains(line, "Successfully bound pod") && len(line) > len(stamp) {
			if at, err := time.Parse(stamp, line[1:1+len(stamp)]); err == nil {
				bound = append(bound, at)
			}
		}
	}
	return bound
}

// pend creates pods that no scheduler has seen yet.
func (w *world) pend(b *testing.B, namespace string, pods int) {
	b.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("WEIR_KUBECONFIG"))
	if err != nil {
		b.Fatal(err)
	}
	config.QPS, config.Burst = 5000, 5000
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := client.CoreV1().Namespaces().Create(b.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	group, ctx := errgroup.WithContext(context.Background())
	group.SetLimit(20)
	for i := range pods {
		group.Go(func() error {
			_, err := client.CoreV1().Pods(namespace).Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("p-", i)},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web:1", Resources: corev1.ResourceRequirements{
					Requests: corev1.ResourceList{"cpu": resource.MustParse("10m")}}}}}}, metav1.CreateOptions{})
			return err
		})
	}
	if err := group.Wait(); err != nil {
		b.Fatal(err)
	}
}

// SPDX-License-Identifier: Apache-2.0

package discovery

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"

	"github.com/edgeweir/weir/internal/cluster"
	lab "github.com/edgeweir/weir/test/cluster"
)

// discover starts a source that ends with the test.
func discover(t *testing.T, config *rest.Config) *Source {
	t.Helper()
	s, err := New(config, Options{Cluster: "lab", Registerer: prometheus.NewRegistry(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return s
}

// await fails the test when check does not come true within limit.
func await(t *testing.T, s *Source, limit time.Duration, what string, check func(c *cluster.Cluster) bool) {
	t.Helper()
	began := time.Now()
	for {
		if c := s.Cluster(); c != nil && check(c) {
			t.Logf("%s after %s", what, time.Since(began).Round(10*time.Millisecond))
			return
		}
		if time.Since(began) > limit {
			t.Fatalf("%s: not within %s; degraded %q, services %+v", what, limit, s.Degraded(), services(s.Cluster()))
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func services(c *cluster.Cluster) []cluster.Service {
	if c == nil {
		return nil
	}
	return c.Services
}

func service(c *cluster.Cluster, name string) cluster.Service {
	for _, s := range c.Services {
		if s.Name == name {
			return s
		}
	}
	return cluster.Service{}
}

func endpoints(name string, n int) func(*cluster.Cluster) bool {
	return func(c *cluster.Cluster) bool { return len(service(c, name).Endpoints) == n }
}

func web(t *testing.T, c *lab.Cluster, replicas int32) {
	t.Helper()
	err := c.Create(t.Context(), lab.Workload{Namespace: "shop", Name: "web", Replicas: replicas, CPU: "500m", Memory: "256Mi",
		Annotations: map[string]string{"edgeweir.io/sla": "40"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.WaitReady(t.Context(), "shop", "web", 30*time.Second); err != nil {
		t.Fatal(err)
	}
}

func scale(t *testing.T, c *lab.Cluster, replicas int) {
	t.Helper()
	patch := fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas)
	if _, err := c.Client.AppsV1().Deployments("shop").Patch(t.Context(), "web", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

func annotate(t *testing.T, c *lab.Cluster, name, value string) {
	t.Helper()
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, name, value)
	if _, err := c.Client.CoreV1().Services("shop").Patch(t.Context(), "web", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

func TestDiscovery(t *testing.T) {
	c := lab.Start(t, lab.Options{Nodes: 3, Node: func(i int, n *corev1.Node) {
		if i == 1 {
			n.Status.Images = []corev1.ContainerImage{{Names: []string{"weir.test/web:1"}, SizeBytes: 5e7}}
		}
	}})
	cordon := []byte(`{"spec":{"unschedulable":true}}`)
	if _, err := c.Client.CoreV1().Nodes().Patch(t.Context(), "edge-3", types.MergePatchType, cordon, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	web(t, c, 4)
	s := discover(t, c.Config)
	await(t, s, 10*time.Second, "the cluster as it is", endpoints("shop/web:http", 4))
	checkCluster(t, s.Cluster())
	if lines := s.Degraded(); len(lines) > 0 {
		t.Errorf("degraded %q", lines)
	}
	scale(t, c, 6)
	await(t, s, 10*time.Second, "two more pods", endpoints("shop/web:http", 6))
	t.Run("a budget pins", func(t *testing.T) { checkBudget(t, c, s) })
	t.Run("a bad annotation", func(t *testing.T) { checkAnnotation(t, c, s) })
	t.Run("label taken off", func(t *testing.T) {
		patch := `{"metadata":{"labels":{"service.kubernetes.io/service-proxy-name":null}}}`
		if _, err := c.Client.CoreV1().Services("shop").Patch(t.Context(), "web", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		await(t, s, 10*time.Second, "no service", func(c *cluster.Cluster) bool { return len(c.Services) == 0 })
	})
}

func checkCluster(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	if len(c.Nodes) != 3 || len(c.Problems) > 0 {
		t.Fatalf("%d nodes, problems %v", len(c.Nodes), c.Problems)
	}
	requested := 0.0
	for _, n := range c.Nodes {
		requested += n.Requested["cpu"]
		if len(n.Addresses) != 1 || len(n.PodCIDRs) != 1 || n.Zone == "" || n.Capacity["cpu"] != 4 || n.Unready != (n.Name == "edge-3") {
			t.Errorf("node %+v", n)
		}
	}
	if requested != 2 {
		t.Errorf("%g cores are requested, want 4 pods × 0.5", requested)
	}
	l := service(c, "shop/web:http")
	if l.SLA != 40 || l.Workload != "shop/Deployment/web" || l.PodRequest["cpu"] != 0.5 || len(l.Addresses) == 0 {
		t.Errorf("service %+v", l)
	}
	for _, p := range c.Pods {
		if p.Workload != "shop/Deployment/web" || p.Owner == "" || p.UID == "" || p.PinnedWhy != "" || p.Unready || p.Image != "weir.test/web:1" {
			t.Errorf("pod %+v", p)
		}
	}
}

func checkBudget(t *testing.T, c *lab.Cluster, s *Source) {
	all := intstr.FromString("100%")
	_, err := c.Client.PolicyV1().PodDisruptionBudgets("shop").Create(t.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "all"},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: &all, Selector: &metav1.LabelSelector{}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	await(t, s, 10*time.Second, "pinned pods", func(c *cluster.Cluster) bool {
		return strings.HasPrefix(c.Pods[0].PinnedWhy, "PodDisruptionBudget all")
	})
	if err := c.Client.PolicyV1().PodDisruptionBudgets("shop").Delete(t.Context(), "all", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, s, 10*time.Second, "free pods", func(c *cluster.Cluster) bool { return c.Pods[0].PinnedWhy == "" })
}

// A bad annotation leaves its default in force, and is told once on the object
// and in a metric.
func checkAnnotation(t *testing.T, c *lab.Cluster, s *Source) {
	annotate(t, c, "edgeweir.io/sla", "fast")
	await(t, s, 10*time.Second, "the default", func(c *cluster.Cluster) bool { return service(c, "shop/web:http").SLA == 0 })
	metric := s.metrics.problems.WithLabelValues("edgeweir.io/sla")
	if got := testutil.ToFloat64(metric); got != 1 {
		t.Errorf("the metric tells %v problems", got)
	}
	await(t, s, 20*time.Second, "an event", func(*cluster.Cluster) bool { return len(told(t, c)) > 0 })
	time.Sleep(3 * round)
	events := told(t, c)
	if len(events) != 1 || !strings.Contains(events[0], `edgeweir.io/sla: "fast": allowed is a number over 0`) {
		t.Errorf("events %q", events)
	}
	annotate(t, c, "edgeweir.io/sla", "30")
	await(t, s, 10*time.Second, "the new value", func(c *cluster.Cluster) bool { return service(c, "shop/web:http").SLA == 30 })
	if got := testutil.ToFloat64(metric); got != 0 {
		t.Errorf("the metric tells %v problems, still", got)
	}
}

// told returns the notes of Weir's Events on Service web.
func told(t *testing.T, c *lab.Cluster) []string {
	t.Helper()
	list, err := c.Client.EventsV1().Events("shop").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var notes []string
	for _, e := range list.Items {
		if e.ReportingController == "edgeweir.io/optimizer" && e.Regarding.Kind == "Service" && e.Regarding.Name == "web" && e.Regarding.UID != "" {
			notes = append(notes, e.Note)
		}
	}
	return notes
}

// Whatever the API server does, the last state stays, the loss is told and the
// way back needs no hand.
func TestFaults(t *testing.T) {
	c := lab.Start(t, lab.Options{Nodes: 2})
	web(t, c, 2)
	proxy := c.Proxy(t)
	s := discover(t, proxy.Config(c.Config))
	await(t, s, 10*time.Second, "the cluster as it is", endpoints("shop/web:http", 2))
	pods := 2
	next := func() int {
		pods = 5 - pods
		return pods
	}
	faults := []struct {
		name string
		set  lab.Fault
		tell string
	}{
		{"429", lab.Fault{Status: 429, RetryAfter: time.Second}, "429"},
		{"500", lab.Fault{Status: 500}, "500"},
		{"410 on watches", lab.Fault{Match: lab.IsWatch, Status: 410}, "410"},
		{"cut", lab.Fault{Cut: true}, "stream error"},
	}
	for _, tt := range faults {
		t.Run(tt.name, func(t *testing.T) {
			proxy.Set(tt.set)
			defer proxy.Set()
			proxy.Sever()
			want := next()
			scale(t, c, want)
			await(t, s, 20*time.Second, "degraded", func(*cluster.Cluster) bool { return strings.Contains(fmt.Sprint(s.Degraded()), tt.tell) })
			// Lists alone go through where only watches fail.
			if got := len(s.Cluster().Services[0].Endpoints); tt.set.Match == nil && got != 5-want {
				t.Errorf("%d endpoints, not those of before", got)
			}
			proxy.Set()
			recovered(t, s, want)
		})
	}
	t.Run("API server restarted", func(t *testing.T) {
		if err := c.APIServer.Stop(); err != nil {
			t.Fatal(err)
		}
		if err := c.APIServer.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := next()
		scale(t, c, want)
		recovered(t, s, want)
	})
	t.Run("API server gone", func(t *testing.T) { checkGone(t, c, s, next()) })
}

func recovered(t *testing.T, s *Source, pods int) {
	t.Helper()
	await(t, s, 90*time.Second, "what changed meanwhile", endpoints("shop/web:http", pods))
	await(t, s, 90*time.Second, "no complaint", func(*cluster.Cluster) bool { return len(s.Degraded()) == 0 && s.Staleness() == 0 })
}

// outage is how long the API server is gone; WEIR_OUTAGE makes it longer.
const outage = 10 * time.Second

func checkGone(t *testing.T, c *lab.Cluster, s *Source, want int) {
	length := outage
	if d, err := time.ParseDuration(os.Getenv("WEIR_OUTAGE")); err == nil {
		length = d
	}
	if err := c.APIServer.Stop(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(length)
	lines := s.Degraded()
	if len(lines) != 1 || !strings.Contains(lines[0], "what was known of the cluster stays") {
		t.Errorf("degraded %q", lines)
	}
	t.Log(lines)
	if s.Staleness() < length/2 || len(s.Cluster().Pods) != 5-want {
		t.Errorf("stale for %s, %d pods", s.Staleness(), len(s.Cluster().Pods))
	}
	if err := c.APIServer.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	scale(t, c, want)
	recovered(t, s, want)
}

// An optimizer that may not read budgets and autoscalers works without them, and
// says so.
func TestForbiddenKinds(t *testing.T) {
	c := lab.Start(t, lab.Options{Nodes: 1})
	web(t, c, 1)
	config, err := c.ServiceAccount(t.Context(), "weir-system", "narrow")
	if err != nil {
		t.Fatal(err)
	}
	grant(t, c)
	s := discover(t, config)
	await(t, s, 15*time.Second, "the cluster as it is", endpoints("shop/web:http", 1))
	lines := strings.Join(s.Degraded(), "\n")
	if !strings.Contains(lines, "poddisruptionbudgets") || !strings.Contains(lines, "horizontalpodautoscalers") || !strings.Contains(lines, "403") {
		t.Errorf("degraded %q", lines)
	}
	if why := service(s.Cluster(), "shop/web:http").FixedWhy; !strings.Contains(why, "can't be read") {
		t.Errorf("scaled in spite of unknown autoscalers: %q", why)
	}
	scale(t, c, 3)
	await(t, s, 10*time.Second, "changes", endpoints("shop/web:http", 3))
	requests, err := c.Requests()
	if err != nil {
		t.Fatal(err)
	}
	own := requests.Of("system:serviceaccount:weir-system:narrow")
	if open := own.Watches(time.Now()); len(open) > len(watches) {
		t.Errorf("%d open watches: %v", len(open), open.Count(lab.ByCall))
	}
	t.Log(own.Count(lab.ByCall))
}

// grant lets the service account read all but the optional policies.
func grant(t *testing.T, c *lab.Cluster) {
	t.Helper()
	read := func(group string, resources ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: []string{"list", "watch"}}
	}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "narrow"}, Rules: []rbacv1.PolicyRule{
		read("", "nodes", "pods", "services"), read("discovery.k8s.io", "endpointslices"),
		read("apps", "replicasets", "deployments", "statefulsets"),
	}}
	if _, err := c.Client.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "narrow"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "narrow"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "weir-system", Name: "narrow"}},
	}
	if _, err := c.Client.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

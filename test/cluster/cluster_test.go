// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
)

const limit = time.Minute

// TestCluster goes through one cluster's life: each step stands on those before.
func TestCluster(t *testing.T) {
	c := Start(t, Options{Nodes: 5, Users: []string{"nobody"}, Node: func(i int, n *corev1.Node) { n.Labels["number"] = fmt.Sprint(i) }})
	t.Run("workload", func(t *testing.T) { workloadRuns(t, c) })
	t.Run("rights", func(t *testing.T) { rightsAreLeast(t, c) })
	t.Run("audit", func(t *testing.T) { watchesAreCounted(t, c) })
	t.Run("proxy", func(t *testing.T) { proxyStandsBetween(t, c) })
	t.Run("scheduler", func(t *testing.T) { secondSchedulerBinds(t, c) })
	t.Run("restart", func(t *testing.T) { stateSurvives(t, c) })
	t.Run("pause", func(t *testing.T) { pausedServerIsSilent(t, c) })
	t.Run("folder", func(t *testing.T) {
		if second, err := Run(t.Context(), Options{Name: filepath.Base(c.Dir)}); err == nil {
			t.Error("two clusters share a folder")
			second.Stop()
		}
	})
	t.Run("stop", func(t *testing.T) { nothingIsLeft(t, c) })
}

// TestPodsTakeTheirTime shows the endpoint of a pod that is being stopped.
func TestPodsTakeTheirTime(t *testing.T) {
	c := Start(t, Options{Nodes: 2, PodStart: time.Second, PodStop: 2 * time.Second})
	began := time.Now()
	must(t, c.Create(t.Context(), Workload{Namespace: "shop", Name: "web", Replicas: 1}))
	must(t, c.WaitReady(t.Context(), "shop", "web", limit))
	if d := time.Since(began); d < time.Second {
		t.Errorf("a pod runs after %s, want a second at least", d)
	}
	pods, err := c.Client.CoreV1().Pods("shop").List(t.Context(), metav1.ListOptions{})
	must(t, err)
	began = time.Now()
	must(t, c.Client.CoreV1().Pods("shop").Delete(t.Context(), pods.Items[0].Name, metav1.DeleteOptions{}))
	must(t, Wait(t.Context(), limit, func(ctx context.Context) error {
		slices, err := c.Client.DiscoveryV1().EndpointSlices("shop").List(ctx, metav1.ListOptions{})
		must(t, err)
		for _, e := range slices.Items[0].Endpoints {
			if e.TargetRef.Name == pods.Items[0].Name && *e.Conditions.Terminating && *e.Conditions.Serving && !*e.Conditions.Ready {
				return nil
			}
		}
		return fmt.Errorf("no terminating endpoint in %+v", slices.Items[0].Endpoints)
	}))
	must(t, Wait(t.Context(), limit, func(ctx context.Context) error {
		_, err := c.Client.CoreV1().Pods("shop").Get(ctx, pods.Items[0].Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("the stopped pod is still there (%v)", err)
	}))
	if d := time.Since(began); d < 2*time.Second {
		t.Errorf("a pod is gone after %s, want two seconds at least", d)
	}
}

func workloadRuns(t *testing.T, c *Cluster) {
	must(t, c.Create(t.Context(), Workload{Namespace: "shop", Name: "web", Replicas: 10}))
	must(t, c.WaitReady(t.Context(), "shop", "web", limit))
	pods, err := c.Client.CoreV1().Pods("shop").List(t.Context(), metav1.ListOptions{})
	must(t, err)
	addresses := map[string]bool{}
	for _, p := range pods.Items {
		if p.Status.Phase != corev1.PodRunning || !strings.HasPrefix(p.Spec.NodeName, "edge-") {
			t.Errorf("pod %s is %s on %q", p.Name, p.Status.Phase, p.Spec.NodeName)
		}
		addresses[p.Status.PodIP] = true
	}
	if len(addresses) != 10 {
		t.Errorf("10 pods have %d addresses", len(addresses))
	}
	nodes, err := c.Client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{LabelSelector: "number=4"})
	must(t, err)
	if len(nodes.Items) != 1 || nodes.Items[0].Labels[corev1.LabelTopologyZone] != "zone-1" {
		t.Errorf("node 4: %+v", nodes.Items)
	}
}

// rightsAreLeast shows that a user without roles may do nothing, and that a
// service account has a name of its own in the audit log.
func rightsAreLeast(t *testing.T, c *Cluster) {
	client, err := kubernetes.NewForConfig(c.ConfigFor("nobody"))
	must(t, err)
	if _, err := client.CoreV1().Pods("shop").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("a user without roles lists pods: %v", err)
	}
	config, err := c.ServiceAccount(t.Context(), "shop", "optimizer")
	must(t, err)
	client, err = kubernetes.NewForConfig(config)
	must(t, err)
	if _, err := client.CoreV1().Pods("shop").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("a service account without roles lists pods: %v", err)
	}
	requests, err := c.Requests()
	must(t, err)
	denied := requests.Of("system:serviceaccount:shop:optimizer").To("pods", "list")
	if len(denied) != 1 || denied[0].Code != http.StatusForbidden {
		t.Errorf("the log of the denied list: %+v", denied)
	}
}

func watchesAreCounted(t *testing.T, c *Cluster) {
	w, err := c.Client.CoreV1().ConfigMaps("shop").Watch(t.Context(), metav1.ListOptions{})
	must(t, err)
	mine := func(at time.Time) int {
		requests, err := c.Requests()
		must(t, err)
		return len(requests.Of(Admin).To("configmaps").Watches(at))
	}
	open := time.Now()
	must(t, Wait(t.Context(), limit, func(context.Context) error {
		if n := mine(time.Now()); n != 1 {
			return fmt.Errorf("%d watches of mine, want 1", n)
		}
		return nil
	}))
	w.Stop()
	must(t, Wait(t.Context(), limit, func(context.Context) error {
		if n := mine(time.Now()); n != 0 {
			return fmt.Errorf("%d watches after the end, want 0", n)
		}
		return nil
	}))
	if n := mine(open); n != 1 {
		t.Errorf("%d watches were open then, want 1", n)
	}
}

func proxyStandsBetween(t *testing.T, c *Cluster) {
	p := c.Proxy(t)
	client, err := kubernetes.NewForConfig(p.Config(c.Config))
	must(t, err)
	w, err := client.CoreV1().Pods("shop").Watch(t.Context(), metav1.ListOptions{})
	must(t, err)
	if e := <-w.ResultChan(); e.Type != watch.Added {
		t.Errorf("a watch through the proxy begins with %v", e.Type)
	}
	p.Set(Fault{Match: func(r *http.Request) bool { return strings.Contains(r.URL.Path, "/nodes") }, Status: http.StatusInternalServerError})
	if _, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); !apierrors.IsInternalError(err) {
		t.Errorf("nodes: %v, want an internal error", err)
	}
	if _, err := client.CoreV1().Pods("shop").List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("pods, which the fault spares: %v", err)
	}
	p.Sever()
	for range w.ResultChan() { // what was buffered, then the end
	}
}

func secondSchedulerBinds(t *testing.T, c *Cluster) {
	p, err := c.StartScheduler(t.Context(), "second", "profiles: [{schedulerName: second}]")
	must(t, err)
	must(t, c.Namespace(t.Context(), "second"))
	pod := Workload{Name: "alone"}.deployment().Spec.Template
	pod.Name, pod.Spec.SchedulerName = "alone", "second"
	must(t, Wait(t.Context(), limit, func(ctx context.Context) error { // once the namespace has its service account
		_, err := c.Client.CoreV1().Pods("second").Create(ctx, &corev1.Pod{ObjectMeta: pod.ObjectMeta, Spec: pod.Spec}, metav1.CreateOptions{})
		return err
	}))
	must(t, Wait(t.Context(), limit, func(ctx context.Context) error {
		got, err := c.Client.CoreV1().Pods("second").Get(ctx, "alone", metav1.GetOptions{})
		if err == nil && got.Status.Phase != corev1.PodRunning {
			return fmt.Errorf("the pod of the second scheduler is %s", got.Status.Phase)
		}
		return err
	}))
	must(t, p.Stop())
}

func stateSurvives(t *testing.T, c *Cluster) {
	before := c.APIServer.PID()
	must(t, c.APIServer.Kill())
	if c.APIServer.PID() != 0 {
		t.Error("a killed process has a pid")
	}
	must(t, c.Etcd.Stop())
	must(t, c.Etcd.Start(t.Context()))
	must(t, c.APIServer.Start(t.Context()))
	if after := c.APIServer.PID(); after == before || after == 0 {
		t.Errorf("the API server is process %d after a kill of %d", after, before)
	}
	must(t, c.WaitReady(t.Context(), "shop", "web", limit))
	must(t, c.Create(t.Context(), Workload{Namespace: "shop", Name: "api", Replicas: 3}))
	must(t, c.WaitReady(t.Context(), "shop", "api", limit))
}

func pausedServerIsSilent(t *testing.T, c *Cluster) {
	must(t, c.APIServer.Pause())
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err := c.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	must(t, c.APIServer.Resume())
	if err == nil {
		t.Error("a paused API server answers")
	}
	if _, err := c.Client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("a resumed API server does not answer: %v", err)
	}
}

func nothingIsLeft(t *testing.T, c *Cluster) {
	var pids []int
	for _, p := range c.Processes() {
		pids = append(pids, p.PID())
	}
	must(t, c.Stop())
	for _, pid := range pids {
		if _, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); pid != 0 && err == nil {
			t.Errorf("process %d is left", pid)
		}
	}
	if _, err := os.Stat(c.state); !os.IsNotExist(err) {
		t.Errorf("the folder %s is left: %v", c.state, err)
	}
	for _, name := range []string{"etcd.log", "kube-apiserver.log", "audit.log"} {
		if info, err := os.Stat(filepath.Join(c.Dir, name)); err != nil || info.Size() == 0 {
			t.Errorf("no %s: %v", name, err)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"flag"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/edgeweir/weir/internal/testenv"
)

// The test binary is its own stand-in for the optimizer when started as that is.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "run" {
		if err := standIn(os.Args[2:]); err != nil {
			panic(err)
		}
		return
	}
	os.Exit(m.Run())
}

// standIn watches pods, lists nodes once a period and has a cycle of 30 ms.
func standIn(args []string) error {
	flags := flag.NewFlagSet("run", flag.ExitOnError)
	kubeconfig, admin := flags.String("kubeconfig", "", ""), flags.String("admin", "", "")
	period := flags.Duration("period", time.Second, "")
	flags.String("cluster", "", "")
	flags.String("redis", "", "")
	flags.Parse(args)
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	factory.Core().V1().Pods().Informer()
	factory.Start(nil)
	cycle := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "weir_optimizer_cycle_seconds", Buckets: []float64{0.01, 0.1, 1}})
	registry := prometheus.NewRegistry()
	registry.MustRegister(cycle)
	go func() {
		for range time.Tick(*period) {
			client.CoreV1().Nodes().List(context.Background(), metav1.ListOptions{})
			cycle.Observe(0.03)
		}
	}()
	http.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	return http.ListenAndServe(*admin, nil)
}

// TestHarness measures the stand-in, of which all is known.
func TestHarness(t *testing.T) {
	testenv.Require(t, testenv.ControlPlane, testenv.Redis)
	p := plan{nodes: 4, pods: 20, services: 2, agents: 3, period: 500 * time.Millisecond, quiet: 6, busy: 6, changes: 3,
		optimizer: os.Args[0], out: t.TempDir()}
	if err := run(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(p.out, "cluster.json"))
	if err != nil {
		t.Fatal(err)
	}
	var r report
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	if r.AgentWatches != 4 || r.OptimizerWatches["pods"] != 1 || len(r.OptimizerWatches) != 1 {
		t.Errorf("watches: %g an agent, optimizer %v", r.AgentWatches, r.OptimizerWatches)
	}
	for name, w := range map[string]window{"quiet": r.Quiet, "busy": r.Busy} {
		if n := w.OptimizerCalls["list nodes"]; n < 4 || n > 7 || len(w.OptimizerCalls) != 1 {
			t.Errorf("%s: calls %v, want some 6 lists of nodes", name, w.OptimizerCalls)
		}
		if s := w.Seconds["weir_optimizer_cycle_seconds"]; s.Count < 4 || s.Mean < 0.029 || s.Mean > 0.031 || s.MostBelow != 0.1 {
			t.Errorf("%s: cycle %+v", name, s)
		}
		if w.RedisInPerPeriod < 4*200 || w.RedisInPerPeriod > 1e5 {
			t.Errorf("%s: %g bytes a period into Redis from 4 nodes", name, w.RedisInPerPeriod)
		}
	}
	if m := r.PeakMemory["optimizer"]; m < 1<<20 || m > 1<<30 {
		t.Errorf("the stand-in's peak memory: %d bytes", m)
	}
	if r.Met["a quiet period costs at most one API call"] == (r.Quiet.OptimizerCalls["list nodes"] > 6) {
		t.Errorf("judged: %v", r.Met)
	}
}

// SPDX-License-Identifier: Apache-2.0

// Command cluster measures Weir on a real control plane of 500 nodes and 5,000
// pods: the optimizer's memory, cycle time and API calls, the watches of each
// agent, and the bytes through Redis. Without changes in the cluster first, then
// with some.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/edgeweir/weir/internal/kube"
	"github.com/edgeweir/weir/test/cluster"
)

// plan is what a run is told.
type plan struct {
	nodes, pods, services int
	// agents is how many agents hold their watches; all nodes tell arrivals.
	agents int
	period time.Duration
	// quiet and busy are how many periods are measured of each kind.
	quiet, busy int
	// changes is how many pods are replaced in the busy periods.
	changes int
	// optimizer is the binary; arguments are added to its command line.
	optimizer string
	arguments []string
	out       string
}

const namespace = "load"

func main() {
	var p plan
	flag.IntVar(&p.nodes, "nodes", 500, "nodes")
	flag.IntVar(&p.pods, "pods", 5000, "pods, in all")
	flag.IntVar(&p.services, "services", 100, "services over which the pods are spread evenly")
	flag.IntVar(&p.agents, "agents", 10, "agents whose API watches are held; arrivals are told for every node")
	flag.DurationVar(&p.period, "period", 5*time.Second, "period T")
	flag.IntVar(&p.quiet, "quiet", 12, "periods measured without changes")
	flag.IntVar(&p.busy, "busy", 12, "periods measured while pods are replaced")
	flag.IntVar(&p.changes, "changes", 60, "pods replaced in the busy periods")
	flag.StringVar(&p.optimizer, "optimizer", "bin/optimizer", "binary of the optimizer")
	flag.StringVar(&p.out, "out", "out/bench", "folder of the results")
	flag.Parse()
	p.arguments = flag.Args()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, p); err != nil {
		fmt.Fprintln(os.Stderr, "bench-cluster:", err)
		stop()
		os.Exit(1)
	}
}

// run builds the cluster, measures and writes the report.
func run(ctx context.Context, p plan) (err error) {
	say("starting %d nodes", p.nodes)
	c, err := cluster.Run(ctx, cluster.Options{Nodes: p.nodes, Name: "bench"})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	r := report{Nodes: p.nodes, Pods: p.pods, Services: p.services, PeriodSeconds: p.period.Seconds(), StartSeconds: c.Took.Seconds()}
	say("ready in %.1f s; creating %d pods", c.Took.Seconds(), p.pods)
	began := time.Now()
	scenario := cluster.Scenario{Namespace: namespace, Services: p.services, PodsPerService: p.pods / p.services, Change: declare}
	if err := c.Fill(ctx, scenario, os.Stdout); err != nil {
		return err
	}
	r.FillSeconds = time.Since(began).Seconds()
	say("filled in %.1f s", r.FillSeconds)
	if err := measure(ctx, c, p, &r); err != nil {
		return err
	}
	return r.write(filepath.Join(p.out, "cluster.json"))
}

// declare gives every service what the models ask for.
func declare(_ int, w *cluster.Workload) {
	w.Annotations = map[string]string{kube.Prefix + "sla": "4", kube.Prefix + "cost.cpu": "20m"}
}

func say(format string, args ...any) { fmt.Printf("bench-cluster: "+format+"\n", args...) }

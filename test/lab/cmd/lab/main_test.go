// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/edgeweir/weir/internal/testenv"
	"github.com/edgeweir/weir/test/lab/load"
	"github.com/edgeweir/weir/test/lab/measure"
	"github.com/edgeweir/weir/test/lab/pod"
	"github.com/edgeweir/weir/test/lab/topology"
)

// asLab makes the test's binary behave as the command.
const asLab = "WEIR_TEST_AS_LAB"

func TestMain(m *testing.M) {
	if os.Getenv(asLab) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// start runs the lab command in a namespace of the lab.
func start(t *testing.T, lab *topology.Topology, namespace, name string, out *bytes.Buffer, args ...string) *topology.Process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	spec := topology.Spec{
		Name: name, Namespace: namespace, Command: append([]string{self}, args...),
		Env: []string{asLab + "=1"}, Log: filepath.Join(t.TempDir(), "log"),
	}
	if out != nil {
		spec.Stdout = out
	}
	p, err := lab.Start(spec)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// The parts together, by plain routing: pods as processes in their namespaces, a
// plan with a stream through every node to each of two pods, and what the log,
// the pods' own metrics and theory say of it.
func TestLoadThroughTheLab(t *testing.T) {
	testenv.Require(t, testenv.Root)
	lab, err := topology.Build(topology.Config{
		Prefix: "weirtest-cmd-",
		Nodes:  []string{"edge-1", "edge-2", "edge-3"},
		Pods:   []topology.PodSpec{{Name: "shop/a", Node: "edge-1"}, {Name: "shop/b", Node: "edge-3"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := lab.Close(); err != nil {
			t.Error(err)
		}
	})
	const workers, service = 4, 50 * time.Millisecond
	var pods []*topology.Process
	before := map[string]measure.PodSample{}
	for i, p := range lab.Pods {
		pods = append(pods, start(t, lab, p.Namespace, "server", nil, "pod", "--name", p.Name, "--workers", fmt.Sprint(workers),
			"--service", service.String(), "--port", "80", "--seed", fmt.Sprint(i)))
		before[p.Name] = awaitPod(t, lab, p)
	}
	plan := load.Plan{
		Seed: 1, Duration: load.Duration(4 * time.Second), Timeout: load.Duration(10 * time.Second),
		MaxConnections: 10_000, MaxConcurrent: 1000,
	}
	for i, p := range lab.Pods {
		for _, n := range lab.Nodes {
			plan.Streams = append(plan.Streams, load.Stream{
				Service: p.Name, Node: n.Name, Protocol: []string{"tcp", "udp"}[i], Rate: 10,
				Source: n.ClientSource4, Target: netip.AddrPortFrom(p.IPv4, 80),
			})
		}
	}
	result, records := runPlan(t, lab, plan)
	if result.Total.Failed != 0 || result.Total.Completed != len(records) || result.ReusedPorts != 0 {
		t.Errorf("%d records, result %+v", len(records), result)
	}
	if shares := measure.SharesOf(measure.Count(records)); len(shares) != 6 {
		t.Errorf("shares %v", shares)
	}
	for _, p := range lab.Pods {
		after := awaitPod(t, lab, p)
		// 30 requests a second of 50 ms on 4 workers: 0.375, give or take chance.
		window := after
		window.At = before[p.Name].At.Add(4 * time.Second)
		if u := measure.Utilisation(before[p.Name], window); math.Abs(u-0.375) > 0.15 {
			t.Errorf("pod %s: utilisation %.3f, want about 0.375", p.Name, u)
		}
	}
	for _, p := range pods {
		if err := p.Stop(5 * time.Second); err != nil {
			t.Error(err)
		}
	}
}

// awaitPod samples the pod as soon as it answers.
func awaitPod(t *testing.T, lab *topology.Topology, p topology.Pod) measure.PodSample {
	t.Helper()
	url := "http://" + netip.AddrPortFrom(p.IPv4, 9102).String() + "/metrics"
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		s, err := measure.SamplePod(t.Context(), topology.Dialer(lab.Control.Namespace), url, pod.Resource)
		if err == nil {
			return s
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// runPlan runs `lab load` in the client's namespace.
func runPlan(t *testing.T, lab *topology.Topology, plan load.Plan) (load.Result, []load.Record) {
	t.Helper()
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	text, err := json.Marshal(plan)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file("plan"), text, 0o644); err != nil {
		t.Fatal(err)
	}
	var progress bytes.Buffer
	p := start(t, lab, lab.Client.Namespace, "load", &progress,
		"load", "--plan", file("plan"), "--log", file("log"), "--result", file("result"))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := p.Wait(ctx); err != nil {
		t.Fatalf("load: %v", err)
	}
	if lines := strings.Count(progress.String(), "\n"); lines < 4 {
		t.Errorf("%d lines of progress in 4 s:\n%s", lines, progress.String())
	}
	var result load.Result
	if text, err = os.ReadFile(file("result")); err == nil {
		err = json.Unmarshal(text, &result)
	}
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.Open(file("log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	records, err := measure.ReadRecords(log)
	if err != nil {
		t.Fatal(err)
	}
	return result, records
}

func TestLoadNamesTheBadField(t *testing.T) {
	dir := t.TempDir()
	plan := filepath.Join(dir, "plan")
	if err := os.WriteFile(plan, []byte(`{"duration":"1s","timeout":"1s","maxConnections":0}`), 0o644); err != nil {
		t.Fatal(err)
	}
	err := runLoad(t.Context(), loadFiles{plan, filepath.Join(dir, "log"), filepath.Join(dir, "result")}, &bytes.Buffer{})
	if err == nil || !strings.Contains(err.Error(), plan+": load plan: maxConnections is 0") {
		t.Errorf("error %v", err)
	}
}

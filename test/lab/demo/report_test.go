// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/edgeweir/weir/internal/cluster"
	"github.com/edgeweir/weir/internal/wire"
	"github.com/edgeweir/weir/test/lab/load"
	"github.com/edgeweir/weir/test/lab/measure"
	"github.com/edgeweir/weir/test/lab/topology"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// seen is a phase of two nodes and two pods in which pod a got part of the
// connections of each node and a ratio of 0.75 was wanted.
func seen(v variant, s Scenario, part, busyA, busyB float64) *phase {
	p := &phase{variant: v, from: start.Add(s.Warm), to: start.Add(s.Warm + s.steady(v)), idle: 0.5}
	const rate = 100 // connections a second
	total := int((s.Warm + s.steady(v)).Seconds() * rate)
	for i := range total {
		pod := "b"
		if float64(i/2%100) < 100*part {
			pod = "a"
		}
		p.records = append(p.records, load.Record{Service: "web", Node: fmt.Sprint("n", i%2), Pod: pod,
			Start: start.Add(time.Duration(i) * time.Second / rate), TotalMillis: 10})
	}
	p.result.Total = load.Summary{Offered: total, Connections: total, Completed: total}
	p.counted, p.ipvs = uint64(total), uint64(total)
	for at := time.Duration(0); at <= s.Warm+s.steady(v); at += s.Period {
		status := func() *wire.AgentStatus {
			return &wire.AgentStatus{Attachment: "netfilter", Services: []wire.ServerStatus{{Service: "web", Scheduler: "wrr",
				Pods: map[string]wire.PodStatus{"a": {Ratio: 0.75}, "b": {Ratio: 0.25}}}}}
		}
		p.samples = append(p.samples, &sample{at: start.Add(at), agents: map[string]*wire.AgentStatus{"n0": status(), "n1": status()},
			pods: map[string]measure.PodSample{
				"a": {At: start.Add(at), Used: busyA * 3 * at.Seconds(), Capacity: 3},
				"b": {At: start.Add(at), Used: busyB * at.Seconds(), Capacity: 1},
			}})
	}
	return p
}

func small() Scenario {
	return Scenario{
		Nodes: []string{"n0", "n1"}, Services: []Service{{Name: "web", Pods: []Pod{{"a", 0, 3}, {"b", 1, 1}}}},
		Load: 0.7, Period: time.Second, Warm: 2 * time.Second, Steady: 40 * time.Second,
	}
}

func TestReportMeasuresAgainstItsGoals(t *testing.T) {
	s := small()
	phases := func() []*phase {
		slow := seen(variants[0], s, 0.5, 0.45, 0.95)
		for i := range slow.records {
			slow.records[i].TotalMillis = 100
		}
		return []*phase{slow, seen(variants[1], s, 0.75, 0.7, 0.71), seen(variants[2], s, 0.75, 0.7, 0.71)}
	}
	good, err := newReport(s, phases(), true)
	if err != nil {
		t.Fatal(err)
	}
	if err := good.Goals(); err != nil {
		t.Errorf("a good run: %v", err)
	}
	if good.SplitErrorMax > 0.005 || good.ConnectionsPerNode != 2000 || math.Abs(good.Phases["rr"].UtilisationSpread-0.5) > 1e-9 {
		t.Errorf("report %+v", good)
	}
	// Each goal can be missed, and is told.
	for want, spoil := range map[string]func([]*phase){
		"counted 6599":                    func(p []*phase) { p[2].counted-- },
		"by IPVS":                         func(p []*phase) { p[1].ipvs++ },
		"failed: none":                    func(p []*phase) { p[1].result.Total.Failed = 1 },
		"off by 0.1":                      func(p []*phase) { p[2] = seen(variants[2], s, 0.6, 0.7, 0.71) },
		"pods of a service 0.300 apart":   func(p []*phase) { p[2] = seen(variants[2], s, 0.75, 0.5, 0.8) },
		"the load does not tell":          func(p []*phase) { p[0] = seen(variants[0], s, 0.5, 0.7, 0.7) },
		"p99 10 ms, rr 10 ms: at most ha": func(p []*phase) { p[0] = seen(variants[0], s, 0.5, 0.45, 0.95) },
	} {
		p := phases()
		spoil(p)
		r, err := newReport(s, p, true)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Goals(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("goals give %v, want %q", err, want)
		}
	}
}

func TestReportIsWritten(t *testing.T) {
	s := small()
	r, err := newReport(s, []*phase{seen(variants[0], s, 0.5, 0.45, 0.95), seen(variants[1], s, 0.75, 0.7, 0.71), seen(variants[2], s, 0.75, 0.7, 0.71)}, false)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := r.write(dir); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(dir, "report.json"))
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(data, &fields); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"kernel", "attachment", "connections", "counted", "ipvsConnections", "splitErrorMax", "phases", "idleShare"} {
		if _, ok := fields[name]; !ok {
			t.Errorf("report.json lacks %s", name)
		}
	}
	page, err := os.ReadFile(filepath.Join(dir, "report.html"))
	if err != nil {
		t.Fatal(err)
	}
	for _, outside := range []string{"src=", "href=", "@import", "url(http"} {
		if strings.Contains(string(page), outside) {
			t.Errorf("report.html is not self-contained: %s", outside)
		}
	}
	if strings.Count(string(page), "<svg") != 2 {
		t.Error("report.html lacks a plot")
	}
}

// Every phase's cluster file must be one that agents and optimizer take.
func TestClusterFilesAreValid(t *testing.T) {
	s := Default()
	layout, err := topology.Lay(s.lab())
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range variants {
		path := filepath.Join(t.TempDir(), "cluster.yaml")
		if err := writeCluster(path, s.cluster(layout, v)); err != nil {
			t.Fatal(err)
		}
		c, err := cluster.Load(path)
		if err != nil {
			t.Fatal(err)
		}
		if c.Services[0].Scheduler != v.scheduler || c.Services[0].Mode != v.mode {
			t.Errorf("%s: %+v", v.key, c.Services[0])
		}
		plan := s.plan(v, layout.Nodes, 0)
		if err := plan.Check(); err != nil {
			t.Errorf("%s: %v", v.key, err)
		}
	}
}

func TestParseStats(t *testing.T) {
	page := "   Total Incoming Outgoing         Incoming         Outgoing\n" +
		"   Conns  Packets  Packets            Bytes            Bytes\n" +
		"     1C3      400      300            1000             2000\n"
	if n, err := parseStats(page); err != nil || n != 0x1c3 {
		t.Errorf("%d, %v", n, err)
	}
	if _, err := parseStats("nonsense"); err == nil {
		t.Error("nonsense is read")
	}
}

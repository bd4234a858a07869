// SPDX-License-Identifier: Apache-2.0

package model

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"
)

func example(t testing.TB) []byte {
	t.Helper()
	data, err := os.ReadFile("testdata/example.json")
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestDecodeExample(t *testing.T) {
	s, err := DecodeSnapshot(example(t))
	if err != nil {
		t.Fatal(err)
	}
	if s.Nodes[0].Capacity[NetworkResource] != 1.25e8 || s.Services[0].TaskCost["cpu"] != 0.004 ||
		s.Pods[0].Tasks["default/web:http"] != 40 || s.Arrivals[0].Last != 38 || s.Dispatch.Tiers.Else != 4 ||
		time.Duration(s.Slice) != time.Minute || s.Arrivals[0].SliceTasks != 480 {
		t.Errorf("got %+v", s)
	}
}

func TestDefaults(t *testing.T) {
	s, err := DecodeSnapshot([]byte(`{"version": 1,
		"nodes": [{"name": "n"}],
		"services": [{"name": "s"}],
		"pods": [{"name": "p", "node": "n", "services": ["s"]}],
		"arrivals": [{"service": "s", "node": "n", "tasks": 7}]}`))
	if err != nil {
		t.Fatal(err)
	}
	n, v, p, a := s.Nodes[0], s.Services[0], s.Pods[0], s.Arrivals[0]
	switch {
	case !n.Ready || n.PullBandwidth != 12.5e6 || n.Weights != nil || n.Allocatable != nil:
		t.Errorf("node %+v", n)
	case v.Workload != "s" || v.MinReplicas != 1 || v.MaxReplicas != 0 || v.EnergyCost != 1 || v.DeployCost != 1 || v.TaskCost != nil:
		t.Errorf("service %+v", v)
	case p.Workload != "p" || !p.Ready || !p.Movable || p.Targets != nil:
		t.Errorf("pod %+v", p)
	case a.Last != 7 || a.SliceTasks != 84 || a.Pods != nil:
		t.Errorf("arrival %+v", a)
	case s.Stock[0] != "memory" || s.Dispatch.Headroom != 0.7 || len(s.Dispatch.Stages) != 3:
		t.Errorf("snapshot %+v", s)
	}
}

func TestBadSnapshots(t *testing.T) {
	for _, c := range []struct{ old, new, want string }{
		{`"version": 1`, `"version": 2`, `version: 2: this build reads version 1`},
		{`"version": 1`, `"version": 1.5`, `version: 1.5: want a whole number`},
		{`"version": 1, `, ``, `version: 0: this build reads version 1`},
		{`"zone": "a"`, `"zone": 3`, `nodes[0].zone: 3: want a string`},
		{`"zone": "a"`, `"colour": "a"`, `nodes[0].colour: unknown field`},
		{`"zone": "a"`, `"name": "a"`, `nodes[0].name: comes twice`},
		{`"cpu": 4,`, `"cpu": -4,`, `nodes[0].capacity.cpu: -4: want 0 or more`},
		{`"cpu": 4,`, `"cpu": NaN,`, `nodes[0].capacity.cpu: NaN: want a number`},
		{`"cpu": 4,`, `"cpu": 1e999,`, `nodes[0].capacity.cpu: 1e999: want a finite number`},
		{`"cpu": 4,`, `"cpu": 04,`, `nodes[0].capacity.cpu: 04: want a number`},
		{`"cpu": 4,`, `"gpu": 4,`, `nodes[0].capacity: gpu: unknown name`},
		{`"cpu": 4,`, `"memory": 4,`, `nodes[0].capacity.memory: comes twice`},
		{`"cpu": 0.5, "memory": 0.5}}]`, `"cpu": 0.5, "memory": 0.6}}]`, `nodes[0].weights: 1.1: want weights that add up to 1`},
		{`"pullBandwidth": 2e7`, `"pullBandwidth": 0`, `nodes[0].pullBandwidth: 0: want more than 0`},
		{`"node": "edge-1", "ready"`, `"node": "edge-9", "ready"`, `pods[0].node: "edge-9": unknown name`},
		{`"services": ["default/web:http"]`, `"services": ["x"]`, `pods[0].services[0]: "x": unknown name`},
		{`"services": ["default/web:http"]`, `"services": []`, `arrivals[0].pods[0]: default/web-x: does not serve default/web:http`},
		{`"tasks": {"default/web:http": 40}`, `"tasks": {"x": 40}`, `pods[0].tasks: x: unknown name`},
		{`"tasks": 40, "last"`, `"tasks": -1, "last"`, `arrivals[0].tasks: -1: want 0 or more`},
		{`"pods": ["default/web-x"]`, `"pods": ["x"]`, `arrivals[0].pods[0]: "x": unknown name`},
		{`"pods": ["default/web-x"]}]`, `"pods": ["default/web-x"]}, {"service": "default/web:http", "node": "edge-1", "tasks": 1}]`,
			`arrivals[1]: default/web:http at edge-1: comes twice`},
		{`"headroom": 0.7`, `"headroom": 1.7`, `dispatch.headroom: 1.7: want 0 to 1`},
		{`"maxTimeShare": 0.1`, `"maxTimeShare": -0.1`, `migration.maxTimeShare: -0.1: want 0 to 1`},
		{`"period": "5s"`, `"period": "5"`, `period: 5: want a duration such as "5s"`},
		{`"period": "5s"`, `"period": "0s"`, `period: 0s: want more than 0`},
		{`["throughput", "balance", "locality"]`, `["balance"]`, `dispatch.stages[0]: balance: want throughput`},
		{`"shortage": "throughput"`, `"shortage": "luck"`, `dispatch.shortage: luck: want throughput or maxmin`},
		{`"zone": 1, "else": 4`, `"zone": 5, "else": 4`, `dispatch.tiers.else: 4: want at least zone's`},
		{`"maxReplicas": 10`, `"maxReplicas": 0.5`, `services[0].maxReplicas: 0.5: want a whole number`},
		{`"minReplicas": 1`, `"minReplicas": 11`, `services[0].minReplicas: 11: want at most maxReplicas 10`},
		{`"podRequest": {"cpu": 0.5, "memory": 2.5e8}`, `"podRequest": null`, `services[0].podRequest: required where slaTasksPerPod is given`},
		{`"else": 4}}}`, `"else": 4}}} x`, `document: x: want the end of the document`},
		{`"else": 4}}}`, `"else": 4}}`, `document: end of input: want ','`},
		{`"stock": ["memory"]`, `"stock": ["disk"]`, `stock[0]: disk: not in resources`},
	} {
		text := string(example(t))
		if strings.Count(text, c.old) == 0 {
			t.Fatalf("the example has no %s", c.old)
		}
		_, err := DecodeSnapshot([]byte(strings.Replace(text, c.old, c.new, 1)))
		var field *FieldError
		if err == nil || !errors.As(err, &field) || err.Error() != "snapshot: "+c.want {
			t.Errorf("%s: error %v, want %s", c.new, err, c.want)
		}
	}
}

func TestSnapshotRoundTrip(t *testing.T) {
	s, err := DecodeSnapshot(example(t))
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	again, err := DecodeSnapshot(text)
	if err != nil || !reflect.DeepEqual(s, again) {
		t.Errorf("got %+v, %v, want %+v", again, err, s)
	}
}

// FuzzDecodeSnapshot: what is accepted is JSON, survives a round trip, and can be solved when it is small.
func FuzzDecodeSnapshot(f *testing.F) {
	f.Add(example(f))
	for _, seed := range []string{`{"version":1}`, `{"version":2}`, `[]`, ``, `null`, `{"version":1,"nodes":[{"name":"\u00e9\n"}]}`,
		`{"version":1,"nodes":null,"stock":[],"dispatch":{"stages":["throughput"]}}`,
		`{"version":1,"nodes":[{"name":"n"}],"services":[{"name":"s"}],"pods":[{"name":"p","node":"n","services":["s"],"capacity":{"cpu":1},"used":{"cpu":0.5},"tasks":{"s":5}}],"arrivals":[{"service":"s","node":"n","tasks":1e3}]}`,
		`{"version":1,"nodes":[{"name":"n","capacity":{"network":1e-300}}],"services":[{"name":"s","taskCost":{"network":1e300}}],"pods":[{"name":"p","node":"n","services":["s"]}],"arrivals":[{"service":"s","node":"n","tasks":1e300}]}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := DecodeSnapshot(data)
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\r") {
				t.Errorf("error of several lines: %q", err)
			}
			return
		}
		if !json.Valid(data) {
			t.Fatalf("accepted what is no JSON")
		}
		text, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		again, err := DecodeSnapshot(text)
		if err != nil {
			t.Fatalf("round trip: %v", err)
		}
		if second, err := json.Marshal(again); err != nil || string(second) != string(text) {
			t.Fatalf("round trip: %s, then %s", text, second)
		}
		if len(s.Arrivals) <= 20 && len(s.Pods) <= 20 {
			solveFuzzed(t, s)
		}
	})
}

func solveFuzzed(t *testing.T, s *Snapshot) {
	d, err := Dispatch(context.Background(), s)
	if err != nil {
		if errors.Is(err, ErrUncertified) || errors.Is(err, ErrUnsolved) {
			return // numbers beyond the solver: refused, not answered wrongly
		}
		t.Fatal(err)
	}
	for _, r := range d.Ratios {
		if !(r.Admitted >= 0 && r.Admitted <= 1) {
			t.Fatalf("ratio %+v", r)
		}
	}
}

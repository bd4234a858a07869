// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/edgeweir/weir/internal/testenv"
	"github.com/edgeweir/weir/optimizer/model"
)

func TestSmallInstancesAreSolvedByAllContenders(t *testing.T) {
	for name, c := range map[string]struct {
		model      string
		s          *model.Snapshot
		contenders []string // each at least as good as the one before
	}{
		"dispatch":  {"dispatch", dispatchInstance(4, 4, 3, 0.6, 0.5), []string{contenderThroughput, contenderBalance, contenderLocality}},
		"scaling":   {"scaling", scalingInstance(6, 6, 0.9, 2), []string{contenderFirstFit, contenderWeir}},
		"migration": {"migration", migrationInstance(6, 30, 5, time.Second, 1, 0), []string{contenderGreedy, contenderWeir}},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := json.Marshal(c.s)
			if err != nil {
				t.Fatal(err)
			}
			var last measure
			for i, contender := range c.contenders {
				m, err := once(context.Background(), text, c.model, contender)
				if err != nil {
					t.Fatal(err)
				}
				worse := m.Objective - last.Objective
				if c.model == "dispatch" {
					worse = -worse
				}
				if i > 0 && worse > 1e-6*last.Objective {
					t.Errorf("%s: %+v, worse than %+v", contender, m, last)
				}
				last = m
			}
		})
	}
	if _, err := once(context.Background(), []byte(`{"version": 1}`), "weather", contenderWeir); err == nil {
		t.Error("no error for an unknown model")
	}
}

// The seed's LP serves as much as the collapsed one, where Debian's PuLP is there to say so.
func TestPuLPAgrees(t *testing.T) {
	const python = "/usr/bin/python3"
	testenv.Require(t, testenv.PuLP)
	s := dispatchInstance(6, 6, 4, 0.7, 0.5)
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "snapshot.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	c := config{peer: "../dispatch_pulp.py", python: python, limit: time.Minute}
	m, err := c.start(context.Background(), "dispatch", contenderPuLP, file)
	if err != nil {
		t.Fatal(err)
	}
	d, err := model.Dispatch(context.Background(), s)
	if err != nil || m.Status != "optimal" || m.PeakMiB == 0 || m.Objective-d.Served > 1e-6*d.Served || d.Served-m.Objective > 1e-6*d.Served {
		t.Errorf("PuLP %+v, dispatch serves %v, %v", m, d.Served, err)
	}
}

func TestReportTellsFailures(t *testing.T) {
	c := config{out: t.TempDir()}
	err := c.report([]result{
		{Model: "dispatch", Size: "1×1", Contender: contenderPuLP, Runs: 1, measure: measure{Objective: 2, BuildMillis: 30, SolveMillis: 70}},
		{Model: "dispatch", Size: "1×1", Contender: contenderThroughput, Runs: 1, measure: measure{Objective: 2, SolveMillis: 1}},
		{Model: "dispatch", Size: "1×1", Contender: contenderBalance, Error: "a|b"}})
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(c.out, "models.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"weir throughput | pulp cbc | 100 | 0 |", "| weir balance | a/b |"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

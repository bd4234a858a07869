// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/edgeweir/weir/test/lab/load"
	"github.com/edgeweir/weir/test/lab/measure"
	"github.com/edgeweir/weir/test/lab/topology"
)

// phase is what was seen while one variant was in force.
type phase struct {
	variant  variant
	result   load.Result
	records  []load.Record // of the whole phase
	from, to time.Time     // the measured part, by intended start
	samples  []*sample
	// Counts over the whole phase.
	counted, ipvs uint64
	idle          float64
}

// runPhase puts the variant in force and the load on it. show gets each sample
// and the load's progress.
func (l *lab) runPhase(ctx context.Context, v variant, firstPort uint16, show func(*phase, load.Progress)) (*phase, error) {
	if err := l.startPods(ctx); err != nil {
		return nil, err
	}
	if err := writeCluster(l.file, l.scenario.cluster(l.Layout, v)); err != nil {
		return nil, err
	}
	var before *sample
	if err := l.await(ctx, v.title, func(ctx context.Context) (err error) {
		before, err = l.sample(ctx)
		if err != nil {
			return err
		}
		return inForce(before, v)
	}); err != nil {
		return nil, err
	}
	ipvsBefore, err := l.ipvsConnections()
	if err != nil {
		return nil, err
	}
	p := &phase{variant: v}
	if err := l.load(ctx, p, firstPort, show); err != nil {
		return nil, err
	}
	return p, l.count(ctx, p, before, ipvsBefore)
}

// inForce says whether every agent has taken the variant's cluster file.
func inForce(s *sample, v variant) error {
	for node, a := range s.agents {
		if len(a.Services) == 0 {
			return fmt.Errorf("agent of %s: no service yet", node)
		}
		for _, service := range a.Services {
			if service.Asked != v.scheduler || service.Mode != string(v.mode) {
				return fmt.Errorf("agent of %s: %s is %s, %s", node, service.Service, service.Asked, service.Mode)
			}
		}
	}
	return nil
}

// load runs the load generator and samples once a period.
func (l *lab) load(ctx context.Context, p *phase, firstPort uint16, show func(*phase, load.Progress)) error {
	file := func(kind string) string { return filepath.Join(l.out, p.variant.key+"-"+kind) }
	plan := l.scenario.plan(p.variant, l.Nodes, firstPort)
	text, err := json.Marshal(plan)
	if err != nil {
		return err
	}
	if err := os.WriteFile(file("plan.json"), text, 0o644); err != nil {
		return err
	}
	progress, stdout := io.Pipe()
	generator, err := l.Start(topology.Spec{
		Name: "load", Namespace: l.Client.Namespace, Log: file("load.log"), Stdout: stdout,
		Command: []string{filepath.Join(l.bin, "lab"), "load", "--plan", file("plan.json"), "--log", file("log.jsonl"), "--result", file("result.json")},
	})
	if err != nil {
		return err
	}
	go func() { <-generator.Done(); stdout.Close() }()
	p.from = time.Now().Add(l.scenario.Warm)
	p.to = p.from.Add(l.scenario.steady(p.variant))
	if err := l.follow(ctx, p, progress, show); err != nil {
		return errors.Join(err, generator.Stop(time.Second))
	}
	if err := generator.Wait(ctx); err != nil {
		return fmt.Errorf("load generator: %w; see %s", err, file("load.log"))
	}
	return l.readLoad(p, file)
}

// follow samples once a period for as long as the load lasts.
func (l *lab) follow(ctx context.Context, p *phase, progress io.Reader, show func(*phase, load.Progress)) error {
	lines := json.NewDecoder(progress)
	var idleFrom measure.CPU
	next := time.Now()
	for {
		var now load.Progress
		if err := lines.Decode(&now); err == io.EOF {
			return nil
		} else if err != nil {
			return fmt.Errorf("load generator's progress: %w", err)
		}
		if err := errors.Join(ctx.Err(), l.dead()); err != nil {
			return err
		}
		if time.Now().Before(next) || time.Now().After(p.to) {
			continue
		}
		next = next.Add(l.scenario.Period)
		s, err := l.sample(ctx)
		if err != nil {
			return err
		}
		p.samples = append(p.samples, s)
		cpu, err := measure.ReadCPU()
		if err != nil {
			return err
		}
		if s.at.Before(p.from) || idleFrom.Total == 0 {
			idleFrom = cpu
		}
		p.idle = measure.IdleShare(idleFrom, cpu)
		show(p, now)
	}
}

// readLoad reads what the load generator wrote, and fixes the measured part by
// its own start.
func (l *lab) readLoad(p *phase, file func(string) string) error {
	text, err := os.ReadFile(file("result.json"))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, &p.result); err != nil {
		return fmt.Errorf("%s: %w", file("result.json"), err)
	}
	log, err := os.Open(file("log.jsonl"))
	if err != nil {
		return err
	}
	defer log.Close()
	if p.records, err = measure.ReadRecords(log); err != nil {
		return fmt.Errorf("%s: %w", file("log.jsonl"), err)
	}
	p.from = p.result.Start.Add(l.scenario.Warm)
	p.to = p.from.Add(l.scenario.steady(p.variant))
	return nil
}

// statsLag is how long IPVS takes to show what it counted.
const statsLag = 3 * time.Second

// count waits for the last counts to be told and takes them.
func (l *lab) count(ctx context.Context, p *phase, before *sample, ipvsBefore uint64) error {
	settled := time.Now().Add(max(statsLag, 2*l.scenario.Period))
	return l.await(ctx, "last counts", func(ctx context.Context) error {
		if time.Now().Before(settled) {
			return errors.New("counts have to settle")
		}
		after, err := l.sample(ctx)
		if err != nil {
			return err
		}
		ipvs, err := l.ipvsConnections()
		if err != nil {
			return err
		}
		was := before.counts()
		for flow, n := range after.counts() {
			p.counted += n - was[flow]
		}
		p.ipvs = ipvs - ipvsBefore
		return nil
	})
}

// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/mdlayher/genetlink"

	"github.com/edgeweir/weir/test/lab/load"
	"github.com/edgeweir/weir/test/lab/vm"
)

// Options say how the demo runs.
type Options struct {
	Scenario Scenario
	Out      string // folder of report and logs
	Bin      string // folder of Weir's binaries
	Live     bool   // Stdout is a terminal
	Emulated bool   // this is the emulated machine's side
	Stdout   io.Writer
}

// HasIPVS says whether this kernel balances. The module, where there is one, is
// the agents' to load.
func HasIPVS() bool {
	if _, err := os.Stat("/sys/module/ip_vs"); err == nil {
		return true
	}
	conn, err := genetlink.Dial(nil)
	if err != nil {
		return false
	}
	defer conn.Close()
	_, err = conn.GetFamily("IPVS")
	return err == nil
}

// emulatedLimit bounds a run in the emulated machine.
const emulatedLimit = 15 * time.Minute

// Emulate runs command, which is the demo again, on a kernel that has IPVS.
func Emulate(ctx context.Context, o Options, command []string) error {
	if err := os.MkdirAll(o.Out, 0o755); err != nil {
		return err
	}
	fmt.Fprintln(o.Stdout, "this kernel has no IPVS: starting a Debian kernel under qemu (some seconds)")
	status, err := vm.Run(ctx, vm.Config{
		Command: command, Shares: []string{o.Out}, Deadline: emulatedLimit, Stdout: o.Stdout, Stderr: os.Stderr,
	})
	if err != nil {
		return err
	}
	if status != 0 {
		return fmt.Errorf("the demo in the emulated machine ended with status %d; its logs are in %s", status, o.Out)
	}
	return nil
}

// Run runs all phases on this kernel and writes the report.
func Run(ctx context.Context, o Options) (report *Report, err error) {
	// What an earlier run left would be taken for this one's.
	if err := clearFolder(o.Out); err != nil {
		return nil, err
	}
	show := &screen{out: o.Stdout, live: o.Live, scenario: o.Scenario}
	show.say("starting %d nodes, %d services, Redis, agents and the optimizer; logs in %s", len(o.Scenario.Nodes), len(o.Scenario.Services), o.Out)
	l, err := open(ctx, o.Scenario, o.Out, o.Bin)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	var phases []*phase
	var port uint16
	for i, v := range variants {
		show.say("phase %d of %d: %s, %s", i+1, len(variants), v.title, o.Scenario.Warm+o.Scenario.steady(v))
		p, err := l.runPhase(ctx, v, port, func(p *phase, now load.Progress) { show.show(p, now) })
		if err != nil {
			return nil, err
		}
		phases = append(phases, p)
		port = p.result.NextPort
	}
	report, err = newReport(o.Scenario, phases, o.Emulated)
	if err != nil {
		return nil, err
	}
	if err := report.write(o.Out); err != nil {
		return nil, err
	}
	show.summary(report)
	show.say("report: %s", filepath.Join(o.Out, "report.html"))
	return report, nil
}

// clearFolder makes an empty folder; a folder that is shared into the emulated
// machine can't be made anew.
func clearFolder(path string) error {
	if err := os.MkdirAll(path, 0o755); err != nil {
		return err
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(path, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// limits are what the demo has to reach.
var limits = struct {
	splitError, utilisationSpread, p99Share float64
	connectionsPerNode                      int
}{splitError: 0.02, utilisationSpread: 0.1, p99Share: 0.5, connectionsPerNode: 1000}

// Counts returns an error where a connection was lost, missed or counted twice.
func (r *Report) Counts() error {
	var problems []error
	if r.Counted != r.Connections || r.IPVSConnections != r.Connections || r.Connections == 0 {
		problems = append(problems, fmt.Errorf("connections %d, counted %d, by IPVS %d: equal", r.Connections, r.Counted, r.IPVSConnections))
	}
	for _, v := range variants {
		if p := r.Phases[v.key]; v.weir() && p.Failed > 0 {
			problems = append(problems, fmt.Errorf("%s: %d failed: none", v.title, p.Failed))
		}
	}
	return errors.Join(problems...)
}

// Goals returns an error that names each goal which was missed.
func (r *Report) Goals() error {
	problems := []error{r.Counts()}
	if r.SplitErrorMax > limits.splitError {
		problems = append(problems, fmt.Errorf("share of %s off by %.4f: at most %g", r.SplitErrorAt, r.SplitErrorMax, limits.splitError))
	}
	if r.ConnectionsPerNode < limits.connectionsPerNode {
		problems = append(problems, fmt.Errorf("%d connections at a node: at least %d", r.ConnectionsPerNode, limits.connectionsPerNode))
	}
	rr := r.Phases["rr"]
	if rr.UtilisationSpread <= limits.utilisationSpread {
		problems = append(problems, fmt.Errorf("rr's pods are only %.3f apart: the load does not tell", rr.UtilisationSpread))
	}
	for _, v := range variants {
		p := r.Phases[v.key]
		if v.weir() && p.UtilisationSpread > limits.utilisationSpread {
			problems = append(problems, fmt.Errorf("%s: pods of a service %.3f apart: at most %g", v.title, p.UtilisationSpread, limits.utilisationSpread))
		}
		if v.weir() && p.P99Millis > limits.p99Share*rr.P99Millis {
			problems = append(problems, fmt.Errorf("%s: p99 %.0f ms, rr %.0f ms: at most half", v.title, p.P99Millis, rr.P99Millis))
		}
	}
	return errors.Join(problems...)
}

// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/edgeweir/weir/optimizer/model"
)

const defaultLimit = 5 * time.Minute

// config is what the flags say.
type config struct {
	out, peer, python, only string
	runs                    int
	limit                   time.Duration
}

// instance is one snapshot and who solves it. runs 0 means the configured number.
type instance struct {
	model, size, kind string
	contenders        []string
	runs              int
	build             func() *model.Snapshot
}

// measure is what one process reports of itself, and its peak memory.
type measure struct {
	Status       string  `json:"status"`
	Objective    float64 `json:"objective"`
	Gap          float64 `json:"gap"`
	DecodeMillis float64 `json:"decodeMillis"`
	BuildMillis  float64 `json:"buildMillis"` // of the model, where it is told apart from solving
	SolveMillis  float64 `json:"solveMillis"`
	EncodeMillis float64 `json:"encodeMillis"`
	PeakMiB      float64 `json:"peakMiB"`
	// Of migration: the spread of node load and the number of moves. Of scaling: the penalty within the objective.
	BetweenNodes float64 `json:"betweenNodes,omitempty"`
	Moves        int     `json:"moves,omitempty"`
	Penalty      float64 `json:"penalty,omitempty"`
}

// result is a contender's medians for an instance.
type result struct {
	Model     string `json:"model"`
	Size      string `json:"size"`
	Kind      string `json:"kind"`
	Contender string `json:"contender"`
	Runs      int    `json:"runs"`
	measure
	Error string `json:"error,omitempty"`
}

// run measures all instances and writes the reports.
func (c *config) run(ctx context.Context, progress io.Writer) error {
	folder, err := os.MkdirTemp("", "weir-bench-")
	if err != nil {
		return fmt.Errorf("make a folder for snapshots: %w", err)
	}
	defer os.RemoveAll(folder)
	var results []result
	for _, i := range instances() {
		if c.only != "" && c.only != i.model {
			continue
		}
		fmt.Fprintf(progress, "models: %s %s %s\n", i.model, i.size, i.kind)
		more, err := c.compare(ctx, i, filepath.Join(folder, "snapshot.json"))
		if err != nil {
			return err
		}
		results = append(results, more...)
	}
	return c.report(results)
}

// compare lets the contenders of one instance take turns.
func (c *config) compare(ctx context.Context, i instance, file string) ([]result, error) {
	text, err := json.Marshal(i.build())
	if err != nil {
		return nil, fmt.Errorf("encode snapshot: %w", err)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return nil, fmt.Errorf("write snapshot: %w", err)
	}
	runs := c.runs
	if i.runs > 0 {
		runs = min(runs, i.runs)
	}
	all, failed := make([][]measure, len(i.contenders)), make([]string, len(i.contenders))
	for range runs {
		for j, name := range i.contenders {
			if failed[j] != "" {
				continue
			}
			m, err := c.start(ctx, i.model, name, file)
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			if err != nil {
				failed[j] = err.Error()
				continue
			}
			all[j] = append(all[j], m)
		}
	}
	out := make([]result, len(i.contenders))
	for j, name := range i.contenders {
		out[j] = result{Model: i.model, Size: i.size, Kind: i.kind, Contender: name, Runs: len(all[j]), Error: failed[j]}
		if len(all[j]) > 0 {
			out[j].measure = median(all[j])
		}
	}
	return out, nil
}

// start runs one process and reads its measure.
func (c *config) start(ctx context.Context, modelName, contender, file string) (measure, error) {
	ctx, cancel := context.WithTimeout(ctx, c.limit)
	defer cancel()
	self, err := os.Executable()
	if err != nil {
		return measure{}, fmt.Errorf("find this program: %w", err)
	}
	args := []string{self, "child", modelName, contender, file}
	if contender == contenderPuLP {
		args = []string{c.python, c.peer, file}
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) } // PuLP starts CBC
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	switch err := cmd.Run(); {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return measure{}, fmt.Errorf("not done after %v", c.limit)
	case err != nil:
		return measure{}, fmt.Errorf("%s: %w: %s", contender, err, lastLine(errs.String()))
	}
	var m measure
	if err := json.Unmarshal(out.Bytes(), &m); err != nil {
		return m, fmt.Errorf("%s: %w", contender, err)
	}
	return m, nil
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// median takes the run of median total time, with the median of each duration and the largest memory.
func median(all []measure) measure {
	slices.SortFunc(all, func(a, b measure) int { return cmp.Compare(a.total(), b.total()) })
	m := all[len(all)/2]
	for field, of := range map[*float64]func(measure) float64{
		&m.DecodeMillis: func(m measure) float64 { return m.DecodeMillis },
		&m.BuildMillis:  func(m measure) float64 { return m.BuildMillis },
		&m.SolveMillis:  func(m measure) float64 { return m.SolveMillis },
		&m.EncodeMillis: func(m measure) float64 { return m.EncodeMillis },
	} {
		values := make([]float64, len(all))
		for i := range all {
			values[i] = of(all[i])
		}
		slices.Sort(values)
		*field = values[len(values)/2]
	}
	for i := range all {
		m.PeakMiB = max(m.PeakMiB, all[i].PeakMiB)
	}
	return m
}

func (m measure) total() float64 {
	return m.DecodeMillis + m.BuildMillis + m.SolveMillis + m.EncodeMillis
}

// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/prometheus/procfs"
	"github.com/spf13/cobra"

	"github.com/edgeweir/weir/optimizer/model"
)

// The contenders.
const (
	contenderThroughput = "weir throughput"
	contenderBalance    = "weir balance"
	contenderLocality   = "weir all stages"
	contenderWeir       = "weir"
	contenderPuLP       = "pulp cbc"
	contenderGreedy     = "low node utilisation"
	contenderFirstFit   = "first-fit decreasing"
)

// Fast solves are repeated within a process, so that its start is not what is measured.
const (
	mostRepeats = 9
	enoughTime  = 300 * time.Millisecond
)

func newChild() *cobra.Command {
	return &cobra.Command{
		Use:    "child MODEL CONTENDER SNAPSHOT",
		Short:  "Measure one contender in this process and print the measure",
		Hidden: true,
		Args:   cobra.ExactArgs(3),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := os.ReadFile(args[2])
			if err != nil {
				return fmt.Errorf("read snapshot: %w", err)
			}
			m, err := repeat(cmd.Context(), text, args[0], args[1])
			if err != nil {
				return err
			}
			if m.PeakMiB, err = peak(); err != nil {
				return err
			}
			return json.NewEncoder(cmd.OutOrStdout()).Encode(m)
		},
	}
}

// peak is the most memory that this process had, in MiB. What wait4 tells a parent is no measure of it: a process
// started by vfork begins with its parent's peak.
func peak() (float64, error) {
	self, err := procfs.Self()
	if err != nil {
		return 0, fmt.Errorf("read peak memory: %w", err)
	}
	status, err := self.NewStatus()
	if err != nil {
		return 0, fmt.Errorf("read peak memory: %w", err)
	}
	return float64(status.VmHWM) / (1 << 20), nil
}

// repeat measures decoding, solving and encoding, several times where they are fast, and reports medians.
func repeat(ctx context.Context, text []byte, modelName, contender string) (measure, error) {
	var all []measure
	for began := time.Now(); len(all) == 0 || len(all) < mostRepeats && time.Since(began) < enoughTime; {
		m, err := once(ctx, text, modelName, contender)
		if err != nil {
			return m, err
		}
		all = append(all, m)
	}
	return median(all), nil
}

func once(ctx context.Context, text []byte, modelName, contender string) (measure, error) {
	began := time.Now()
	s, err := model.DecodeSnapshot(text)
	if err != nil {
		return measure{}, err
	}
	decoded := time.Now()
	m, decisions, err := solve(ctx, s, modelName, contender)
	if err != nil {
		return m, err
	}
	solved := time.Now()
	if decisions != nil {
		if err := decisions.WriteJSON(io.Discard); err != nil {
			return m, err
		}
	}
	m.DecodeMillis, m.SolveMillis, m.EncodeMillis = millis(decoded.Sub(began)), millis(solved.Sub(decoded)), millis(time.Since(solved))
	return m, nil
}

func millis(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }

func solve(ctx context.Context, s *model.Snapshot, modelName, contender string) (measure, *model.Decisions, error) {
	switch modelName + " " + contender {
	case "scaling " + contenderFirstFit:
		return firstFitDecreasing(s), nil, nil
	case "migration " + contenderGreedy:
		return lowNodeUtilisation(s), nil, nil
	case "scaling " + contenderWeir:
		d, err := model.Scale(ctx, s)
		if err != nil {
			return measure{}, nil, err
		}
		return measure{Status: d.Status, Objective: d.Cost, Gap: d.Gap, Penalty: d.Penalty}, &model.Decisions{Scaling: d}, nil
	case "migration " + contenderWeir:
		d, err := model.Migrate(ctx, s)
		if err != nil {
			return measure{}, nil, err
		}
		return measure{Status: d.Status, Objective: d.After, Gap: d.Gap, BetweenNodes: d.BetweenNodes, Moves: len(d.Moves)},
			&model.Decisions{Migration: d}, nil
	}
	all := []model.Stage{model.StageThroughput, model.StageBalance, model.StageLocality}
	n := 1 + slices.Index([]string{contenderThroughput, contenderBalance, contenderLocality}, contender)
	if modelName != "dispatch" || n == 0 {
		return measure{}, nil, fmt.Errorf("%s: no contender %q", modelName, contender)
	}
	s.Dispatch.Stages = all[:n]
	d, err := model.Dispatch(ctx, s)
	if err != nil {
		return measure{}, nil, err
	}
	return measure{Status: d.Status, Objective: d.Served}, &model.Decisions{Dispatch: d}, nil
}

// SPDX-License-Identifier: Apache-2.0

package model

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
)

// Errors that callers branch on.
var (
	// ErrUnsolved: a solver ended without an optimum. The last plan should stay.
	ErrUnsolved = errors.New("no optimum")
	// ErrUncertified: the decision did not pass the model's own check. The last plan should stay.
	ErrUncertified = errors.New("certificate does not hold")
	// ErrInfeasible: no answer exists.
	ErrInfeasible = errors.New("infeasible")
)

// Dispatch splits the snapshot's arrivals over its pods (design 3), by the stages and the shortage policy that
// the snapshot names. The decision is certified: feasible by our own check, its bound proven by LP duality. It is
// deterministic, does not change s, and ends early with an error when ctx ends. Bad input is a FieldError.
func Dispatch(ctx context.Context, s *Snapshot) (*DispatchDecision, error) {
	began := time.Now()
	if err := s.Validate(); err != nil {
		return nil, err
	}
	in, err := compile(s)
	if err != nil {
		return nil, err
	}
	bound, err := in.stages(ctx, runtime.GOMAXPROCS(0))
	if err != nil {
		return nil, fmt.Errorf("dispatch: %w", err)
	}
	d := in.decide(bound)
	if err := in.certify(d.Served, bound); err != nil {
		return nil, fmt.Errorf("dispatch: %w", err)
	}
	d.SolveMillis = float64(time.Since(began).Microseconds()) / 1000
	return d, nil
}

// stages runs the stages on so many goroutines and returns the throughput bound.
func (in *instance) stages(ctx context.Context, workers int) (float64, error) {
	components, settings := in.components(), &in.s.Dispatch
	balanced := slices.Contains(settings.Stages, StageBalance)
	for _, k := range components {
		in.build(k)
	}
	bound, err := throughput(ctx, workers, components)
	if err != nil {
		return 0, err
	}
	err = each(ctx, workers, components, func(ctx context.Context, k *component) error {
		if settings.Shortage == ShortageMaxMin {
			if err := in.maxmin(ctx, k); err != nil {
				return err
			}
		}
		if balanced {
			if err := in.balance(ctx, k); err != nil {
				return err
			}
		}
		return in.admit(ctx, k, balanced)
	})
	if err != nil {
		return 0, err
	}
	in.splitFlows()
	if slices.Contains(settings.Stages, StageLocality) {
		err = in.locality(ctx, workers)
	}
	return bound, err
}

// decide publishes what the stages found.
func (in *instance) decide(bound float64) *DispatchDecision {
	d := &DispatchDecision{Status: StatusOptimal, Ratios: in.ratios(), Why: in.explain()}
	for i := range in.arrivals {
		d.Arrived += in.arrivals[i].tasks
		d.Served += in.arrivals[i].admitted
	}
	load := in.load()
	for p := range in.s.Pods {
		if !in.takes(int32(p)) || len(in.serves[p]) == 0 {
			continue
		}
		u, _ := in.utilisation(int32(p), load)
		d.MaxUtilisation = math.Max(d.MaxUtilisation, u)
	}
	d.Arrived, d.Served, d.Bound = publish(d.Arrived), publish(d.Served), publish(bound)
	d.MaxUtilisation = publish(d.MaxUtilisation)
	return d
}

// throughput solves stage 1 for all components and returns the sum of their bounds.
func throughput(ctx context.Context, workers int, components []*component) (float64, error) {
	all := batches(components)
	bounds := make([]float64, len(all))
	numbered := make([]int, len(all))
	for i := range numbered {
		numbered[i] = i
	}
	err := each(ctx, workers, numbered, func(ctx context.Context, i int) error {
		var err error
		bounds[i], err = all[i].throughput(ctx)
		return err
	})
	sum := 0.0
	for _, b := range bounds {
		sum += b
	}
	return sum, err
}

// each runs f over the items on so many goroutines and returns the first error.
func each[T any](ctx context.Context, workers int, items []T, f func(context.Context, T) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(workers)
	for _, item := range items {
		group.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			return f(ctx, item)
		})
	}
	return group.Wait()
}

// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"math"
	"slices"
)

// Source says where a cost comes from.
type Source string

// The sources, from the best.
const (
	SourceRegression Source = "regression" // slope of consumption on tasks
	SourceMean       Source = "mean"       // consumption over tasks: the tasks hardly differ
	SourceDeclared   Source = "declared"   // by the operator, for a service not yet seen at work
	SourcePrior      Source = "prior"      // the median of what the other services cost
	SourceNone       Source = "none"       // nothing is known: 0
)

// Estimation constants.
const (
	// forgetting is what a period's sums keep of their weight in the next: a half-life of 13 periods.
	forgetting = 0.95
	// leastSpread is the coefficient of variation of tasks below which a slope would be noise.
	leastSpread = 0.1
	// leastWeight is the weight of samples below which a slope is not trusted.
	leastWeight = 6
	// leastShare floors the slope, as a share of the mean: noise must not make tasks free.
	leastShare = 0.01
)

// Sample is one pod in one period: the tasks of the service that it served, and what it consumed of a resource.
type Sample struct {
	Tasks, Used float64
}

// Estimator keeps r_lk, what one task of a service a period adds to the consumption of a resource (design 3), by
// least squares over the service's pods with a common base load:
//
//	used = base + r · tasks,   r = (S_w S_xy − S_x S_y) / (S_w S_xx − S_x²),
//
// where the sums forget. A base load is not negative, so r is capped by the mean S_y / S_x. Not safe for
// concurrent use.
type Estimator struct {
	sums     map[string]map[string]*sums // by resource, service
	declared map[string]map[string]float64
}

// sums are the weighted moments of tasks (x) and consumption (y).
type sums struct{ w, x, y, xx, xy float64 }

// NewEstimator knows nothing.
func NewEstimator() *Estimator {
	return &Estimator{sums: make(map[string]map[string]*sums), declared: make(map[string]map[string]float64)}
}

// Declare sets the cost to use until the service has been seen at work.
func (e *Estimator) Declare(service, resource string, cost float64) {
	if e.declared[resource] == nil {
		e.declared[resource] = make(map[string]float64)
	}
	e.declared[resource][service] = cost
}

// Observe takes one period's samples, one per pod. A period without tasks teaches nothing and forgets nothing.
// Samples that are negative or not finite are left out.
func (e *Estimator) Observe(service, resource string, samples []Sample) {
	var now sums
	for _, s := range samples {
		if !(s.Tasks >= 0 && s.Used >= 0) || math.IsInf(s.Tasks+s.Used, 1) {
			continue
		}
		now.w++
		now.x += s.Tasks
		now.y += s.Used
		now.xx += s.Tasks * s.Tasks
		now.xy += s.Tasks * s.Used
	}
	if now.x == 0 {
		return
	}
	if e.sums[resource] == nil {
		e.sums[resource] = make(map[string]*sums)
	}
	old := e.sums[resource][service]
	if old == nil {
		old = &sums{}
		e.sums[resource][service] = old
	}
	old.w = forgetting*old.w + now.w
	old.x = forgetting*old.x + now.x
	old.y = forgetting*old.y + now.y
	old.xx = forgetting*old.xx + now.xx
	old.xy = forgetting*old.xy + now.xy
}

// Forget drops a service that is gone.
func (e *Estimator) Forget(service string) {
	for _, of := range e.sums {
		delete(of, service)
	}
	for _, of := range e.declared {
		delete(of, service)
	}
}

// Cost is r_lk in the resource's unit per task a period, and where it comes from.
func (e *Estimator) Cost(service, resource string) (float64, Source) {
	if s := e.sums[resource][service]; s != nil {
		return s.cost()
	}
	if v, ok := e.declared[resource][service]; ok {
		return v, SourceDeclared
	}
	var known []float64
	for _, s := range e.sums[resource] {
		v, _ := s.cost()
		known = append(known, v)
	}
	if len(known) == 0 {
		return 0, SourceNone
	}
	slices.Sort(known)
	return (known[(len(known)-1)/2] + known[len(known)/2]) / 2, SourcePrior
}

func (s *sums) cost() (float64, Source) {
	mean := s.y / s.x // x > 0: Observe keeps no others
	variance := s.w*s.xx - s.x*s.x
	if s.w < leastWeight || variance <= leastSpread*leastSpread*s.x*s.x {
		return mean, SourceMean
	}
	slope := (s.w*s.xy - s.x*s.y) / variance
	return math.Min(mean, math.Max(leastShare*mean, slope)), SourceRegression
}

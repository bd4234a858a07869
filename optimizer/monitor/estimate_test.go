// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// periods feeds consumption base + r·tasks with relative noise, over eight pods of unequal load.
func periods(e *Estimator, n int, base, r, noise float64) {
	random := rand.New(rand.NewPCG(3, 4))
	for range n {
		var samples []Sample
		for p := range 8 {
			tasks := float64(20 + 15*p + random.IntN(10))
			used := (base + r*tasks) * (1 + noise*random.NormFloat64())
			samples = append(samples, Sample{tasks, math.Max(0, used)})
		}
		e.Observe("web", "cpu", samples)
	}
}

func within(t *testing.T, e *Estimator, want, tolerance float64) {
	t.Helper()
	got, source := e.Cost("web", "cpu")
	if source != SourceRegression || math.Abs(got-want) > tolerance*want {
		t.Errorf("cost %v from %s, want %v within %v", got, source, want, tolerance)
	}
}

func TestEstimatorSeparatesTheBaseLoad(t *testing.T) {
	e := NewEstimator()
	periods(e, 50, 0.2, 0.004, 0)
	within(t, e, 0.004, 1e-9)
}

func TestEstimatorBearsNoise(t *testing.T) {
	e := NewEstimator()
	periods(e, 200, 0.1, 0.004, 0.1)
	within(t, e, 0.004, 0.1)
}

func TestEstimatorFollowsAChangeOfRegime(t *testing.T) {
	e := NewEstimator()
	periods(e, 200, 0.1, 0.004, 0.02)
	periods(e, 60, 0.1, 0.008, 0.02)
	within(t, e, 0.008, 0.1)
}

func TestEstimatorSources(t *testing.T) {
	e := NewEstimator()
	check := func(service string, want float64, source Source) {
		t.Helper()
		if got, from := e.Cost(service, "cpu"); math.Abs(got-want) > 1e-12 || from != source {
			t.Errorf("%s: %v from %s, want %v from %s", service, got, from, want, source)
		}
	}
	check("a", 0, SourceNone)
	e.Declare("a", "cpu", 0.5)
	check("a", 0.5, SourceDeclared)
	e.Observe("a", "cpu", []Sample{{0, 3}})
	check("a", 0.5, SourceDeclared) // a period without tasks teaches nothing
	e.Observe("a", "cpu", []Sample{{10, 2}, {10, 2}, {math.NaN(), 1}, {5, -1}, {math.Inf(1), 1}})
	check("a", 0.2, SourceMean)
	check("b", 0.2, SourcePrior)
	e.Observe("c", "cpu", []Sample{{10, 4}})
	check("b", 0.3, SourcePrior) // the median of 0.2 and 0.4
	e.Forget("c")
	check("c", 0.2, SourcePrior)
}

func TestEstimatorKeepsWhatItKnewThroughSilence(t *testing.T) {
	e := NewEstimator()
	periods(e, 50, 0.2, 0.004, 0)
	for range 1000 {
		e.Observe("web", "cpu", []Sample{{0, 0.2}, {0, 0.2}})
	}
	within(t, e, 0.004, 1e-9)
}

// Whatever comes in, the cost is finite, not negative, and at most consumption over tasks.
func TestEstimatorBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := NewEstimator()
		seen, tasks, used := false, 0.0, 0.0
		for range rapid.IntRange(1, 20).Draw(t, "periods") {
			var samples []Sample
			for range rapid.IntRange(0, 5).Draw(t, "pods") {
				s := Sample{float64(rapid.IntRange(0, 100).Draw(t, "tasks")), rapid.Float64Range(0, 1e9).Draw(t, "used")}
				samples = append(samples, s)
				seen = seen || s.Tasks > 0
				tasks, used = tasks+s.Tasks, math.Max(used, s.Used)
			}
			e.Observe("web", "cpu", samples)
		}
		cost, source := e.Cost("web", "cpu")
		if !(cost >= 0) || math.IsInf(cost, 1) || (source == SourceNone) == seen {
			t.Fatalf("cost %v from %s", cost, source)
		}
		if seen && cost > used*100 {
			t.Fatalf("cost %v, though no pod used more than %v", cost, used)
		}
	})
}

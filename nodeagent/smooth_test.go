// SPDX-License-Identifier: Apache-2.0

package nodeagent

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

func sum(r ratios) (total float64) {
	for _, v := range r {
		total += v
	}
	return total
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-9 }

func TestLargerRatioGetsTheLargerWeight(t *testing.T) {
	w := smooth(ratios{"a": 0.8, "b": 0.2}, ratios{"a": 0.4, "b": 0.6})
	// a: 0.7·0.8 + 0.3·0.4 = 0.68; b: 0.7·0.6 + 0.3·0.2 = 0.48; sum 1.16.
	if !near(w["a"], 0.68/1.16) || !near(w["b"], 0.48/1.16) {
		t.Errorf("weights %v", w)
	}
	if w := smooth(nil, ratios{"a": 0.4, "b": 0.6}); !near(w["a"], 0.4) {
		t.Errorf("without a last ratio: %v", w)
	}
}

func genRatios(pods []string) *rapid.Generator[ratios] {
	return rapid.Custom(func(t *rapid.T) ratios {
		r := ratios{}
		for _, p := range pods {
			if rapid.Bool().Draw(t, "in") {
				r[p] = rapid.Float64Range(0, 1).Draw(t, p)
			}
		}
		return r
	})
}

func TestRatiosStaySound(t *testing.T) {
	pods := []string{"a", "b", "c", "d"}
	rapid.Check(t, func(t *rapid.T) {
		last, next := genRatios(pods).Draw(t, "last"), genRatios(pods).Draw(t, "next").normalise()
		ready := pods[:rapid.IntRange(1, len(pods)).Draw(t, "ready")]
		periods := rapid.Float64Range(-1, 2*driftPeriods).Draw(t, "periods")
		w := smooth(last, next).over(ready).drift(periods)
		if len(w) != len(ready) || !near(sum(w), 1) {
			t.Fatalf("ratios %v of %v sum to %v", w, ready, sum(w))
		}
		for pod, v := range w {
			if v < 0 || math.IsNaN(v) {
				t.Fatalf("%s gets %v", pod, v)
			}
			if periods >= driftPeriods && !near(v, 1/float64(len(ready))) {
				t.Fatalf("%s has %v after the drift", pod, v)
			}
		}
	})
}

func TestSmoothingKeepsSteadyRatios(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := genRatios([]string{"a", "b", "c"}).Draw(t, "r").normalise()
		for pod, v := range smooth(r, r) {
			if !near(v, r[pod]) {
				t.Fatalf("%s: %v became %v", pod, r[pod], v)
			}
		}
	})
}

func TestNewPodStartsAtTheMean(t *testing.T) {
	w := ratios{"a": 0.8, "b": 0.2}.over([]string{"a", "b", "new"})
	if !near(w["new"], 1.0/3) || !near(w["a"], 0.8*2/3) {
		t.Errorf("with a new pod: %v", w)
	}
	if w := (ratios{"a": 0.8, "b": 0.2}).over([]string{"b"}); !near(w["b"], 1) {
		t.Errorf("with a gone pod: %v", w)
	}
}

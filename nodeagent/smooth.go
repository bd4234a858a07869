// SPDX-License-Identifier: Apache-2.0

package nodeagent

// beta is the weight of the larger of two successive ratios (design 6, after
// the patent): β = 0.7.
const beta = 0.7

// driftPeriods is over how many periods ratios become equal once they are stale.
const driftPeriods = 5

// ratios are the parts of a service's tasks by pod; they sum to 1.
type ratios map[string]float64

// smooth returns the ratios to enforce after last and next, both of one service:
//
//	w = β·max(y_t, y_{t−1}) + (1−β)·min(y_t, y_{t−1}), normalised
//
// over the pods of next. Without last it is next.
func smooth(last, next ratios) ratios {
	w := make(ratios, len(next))
	for pod, y := range next {
		before, known := last[pod]
		if !known {
			before = y
		}
		w[pod] = beta*max(y, before) + (1-beta)*min(y, before)
	}
	return w.normalise()
}

// normalise returns r scaled to a sum of 1, or equal ratios where the sum is 0.
func (r ratios) normalise() ratios {
	sum := 0.0
	for _, v := range r {
		sum += v
	}
	n := make(ratios, len(r))
	for pod, v := range r {
		if sum > 0 {
			n[pod] = v / sum
		} else {
			n[pod] = 1 / float64(len(r))
		}
	}
	return n
}

// over returns r for the pods that are ready now: gone pods leave, a pod that
// the optimizer does not know yet starts at the mean of the others.
func (r ratios) over(ready []string) ratios {
	known, sum := 0, 0.0
	for _, pod := range ready {
		if v, ok := r[pod]; ok {
			known++
			sum += v
		}
	}
	mean := 1.0
	if sum > 0 {
		mean = sum / float64(known)
	}
	n := make(ratios, len(ready))
	for _, pod := range ready {
		v, ok := r[pod]
		if !ok {
			v = mean
		}
		n[pod] = v
	}
	return n.normalise()
}

// drift moves r towards equal ratios: by a part of 1/driftPeriods for each
// period past the stale limit, all the way after driftPeriods.
func (r ratios) drift(periods float64) ratios {
	part := min(max(periods/driftPeriods, 0), 1)
	n := make(ratios, len(r))
	for pod, v := range r {
		n[pod] = (1-part)*v + part/float64(len(r))
	}
	return n
}

// SPDX-License-Identifier: Apache-2.0

package monitor

import "github.com/edgeweir/weir/internal/wire"

// meansMemory is the weight of the newest period in a pod's means.
const meansMemory = 0.2

// keepPeriods is for how many periods the last good value of a pod holds.
const keepPeriods = 3

// Means are running means of what each pod used and served. What a pod used
// apart from its tasks, used − Σ r·tasks, is small beside the noise of both in
// one period; cut off at 0 the noise would look like a base load, most of all in
// small pods. Means over the same periods keep the two in step, so the noise and
// the lag of consumption behind arrivals cancel out.
type Means struct {
	pods map[string]*mean
}

type mean struct {
	used, capacity, tasks map[string]float64
	age                   int // periods since the last reading
}

// NewMeans returns means of nothing.
func NewMeans() *Means { return &Means{pods: map[string]*mean{}} }

// Advance begins a period: readings that have not come for too long are dropped.
func (m *Means) Advance() {
	for pod, v := range m.pods {
		if v.age++; v.age > keepPeriods {
			delete(m.pods, pod)
		}
	}
}

// Add takes a pod's reading of one period, with the tasks that it served, by
// service.
func (m *Means) Add(pod string, r wire.Reading, tasks map[string]float64) {
	v, ok := m.pods[pod]
	if !ok {
		v = &mean{}
		m.pods[pod] = v
	}
	v.age, v.capacity = 0, r.Capacity
	v.used = blend(v.used, r.Used)
	v.tasks = blend(v.tasks, tasks)
}

// Pod returns a pod's means, or false when nothing is known of it.
func (m *Means) Pod(pod string) (used, capacity, tasks map[string]float64, ok bool) {
	v, ok := m.pods[pod]
	if !ok {
		return nil, nil, nil, false
	}
	return v.used, v.capacity, v.tasks, true
}

// blend moves old towards now; what is new starts at its value, what is absent
// from now is dropped.
func blend(old, now map[string]float64) map[string]float64 {
	out := make(map[string]float64, len(now))
	for k, v := range now {
		if before, ok := old[k]; ok {
			v = meansMemory*v + (1-meansMemory)*before
		}
		out[k] = v
	}
	return out
}

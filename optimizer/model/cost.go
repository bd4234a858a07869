// SPDX-License-Identifier: Apache-2.0

package model

import "math"

// estimateCosts gives a task cost to each service that declares none: Σ used·tasks / Σ tasks² over the pods that
// serve only it (least squares through the origin), else the mean of what other services have. The monitor
// estimates better, over time; this serves snapshots written by hand. Entries of services with a cost are nil.
func estimateCosts(s *Snapshot) []Quantities {
	out := make([]Quantities, len(s.Services))
	missing := make(map[string]int)
	for l := range s.Services {
		if s.Services[l].TaskCost == nil {
			missing[s.Services[l].Name] = l
		}
	}
	if len(missing) == 0 {
		return out
	}
	type sums struct{ used, square float64 }
	measured := make(map[int][]sums)
	for p := range s.Pods {
		pod := &s.Pods[p]
		if len(pod.Services) != 1 {
			continue
		}
		l, ok := missing[pod.Services[0]]
		tasks := pod.Tasks[pod.Services[0]]
		if !ok || tasks == 0 {
			continue
		}
		if measured[l] == nil {
			measured[l] = make([]sums, len(s.Resources))
		}
		for k, name := range s.Resources {
			measured[l][k].used += pod.Used[name] * tasks
			measured[l][k].square += tasks * tasks
		}
	}
	prior := priorCost(s)
	for _, l := range missing {
		out[l] = prior
		if m := measured[l]; m != nil {
			out[l] = make(Quantities)
			for k, name := range s.Resources {
				out[l][name] = math.Max(0, m[k].used/m[k].square)
			}
		}
	}
	return out
}

// priorCost is the mean of the declared costs, by resource.
func priorCost(s *Snapshot) Quantities {
	prior, n := make(Quantities), make(map[string]float64)
	for l := range s.Services {
		for name, v := range s.Services[l].TaskCost {
			prior[name] += v
			n[name]++
		}
	}
	for name := range prior {
		prior[name] /= n[name]
	}
	return prior
}

// SPDX-License-Identifier: Apache-2.0

package model

import "fmt"

// check sums the plan anew and says which constraint it breaks first: bounds, pods that are not there, relocation,
// the nodes' room.
func (p *plan) check() error {
	left := make([]float64, len(p.in.free))
	copy(left, p.in.free)
	for i := range p.in.work {
		if err := p.checkWorkload(int32(i), left); err != nil {
			return fmt.Errorf("workload %s: %w", p.in.s.Services[p.in.work[i].tightest].Workload, err)
		}
	}
	for at, v := range left {
		if v < -2*p.in.slack(at) {
			return fmt.Errorf("node %s is over its %s by %g", p.in.s.Nodes[at/p.in.resources].Name,
				p.in.s.Resources[at%p.in.resources], -v)
		}
	}
	return nil
}

// checkWorkload checks one workload and takes its changes from left.
func (p *plan) checkWorkload(i int32, left []float64) error {
	w := &p.in.work[i]
	sum, up, down := 0, false, false
	for _, s := range p.change[i] {
		sum += s.count
		up, down = up || s.count > 0, down || s.count < 0
		if s.count > 0 && !p.in.open[s.node] {
			return fmt.Errorf("grows on node %s, which is not ready", p.in.s.Nodes[s.node].Name)
		}
		if w.here(s.node)+s.count < 0 {
			return fmt.Errorf("takes %d pods from node %s, which has %d", -s.count, p.in.s.Nodes[s.node].Name, w.here(s.node))
		}
		for k, r := range w.request {
			left[int(s.node)*p.in.resources+k] -= r * float64(s.count)
		}
	}
	switch total := w.current + sum; {
	case up && down:
		return fmt.Errorf("relocates pods")
	case total != p.total[i]:
		return fmt.Errorf("adds up to %d replicas, not %d", total, p.total[i])
	case total < w.floor || total > w.high:
		return fmt.Errorf("%d replicas are not in %d to %d", total, w.floor, w.high)
	}
	return nil
}

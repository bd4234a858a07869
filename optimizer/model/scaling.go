// SPDX-License-Identifier: Apache-2.0

package model

import (
	"context"
	"fmt"
	"math"
	"time"
)

// Scale finds how many pods each workload should have over the next slice, and on which nodes (design 5):
//
//	minimise   ω_e Σ m x + ω_o Σ j max(0, x − x') + Σ penalty · unmet
//	subject to max(1, min) ≤ x = Σ_n x_n ≤ max                  per workload
//	           λ − unmet ≤ sla · x
//	           Σ (x_n − x'_n) p_k ≤ free_nk                     per node and resource
//	           all x_n ≥ x'_n or all x_n ≤ x'_n                 per workload: nothing is relocated
//
// Service ports over the same pods are one workload, planned once, by its tightest port (the largest λ/sla), under
// whose name it is reported. A minimum that does not fit is told as short; least short comes before least cost, and
// no running pod below a minimum is taken away for another. Among equal costs the plan has the least
// Σ x_n (1 − λ_n/λ), then the least highest node utilisation: exactly where the programme is small and a tenth of the
// time limit is enough, by local search elsewhere. Status speaks of short and cost; Bound is a lower bound of the
// cost of every plan that is no shorter. The plan is never worse than first-fit decreasing, is checked against its
// constraints, and is the same at every run that ends before the time limit. When ctx ends early, the best plan so
// far comes back.
func Scale(ctx context.Context, s *Snapshot) (*ScalingDecision, error) {
	began := time.Now()
	if err := s.Validate(); err != nil {
		return nil, err
	}
	in, err := compileScaling(s)
	if err != nil {
		return nil, err
	}
	search := newScalingSearch(in, began)
	if err := search.run(ctx); err != nil {
		return nil, err
	}
	if err := search.best.check(); err != nil {
		return nil, fmt.Errorf("scaling: %w: %w", ErrUncertified, err)
	}
	d := search.decide()
	d.SolveMillis = float64(time.Since(began).Microseconds()) / 1000
	return d, nil
}

// decide publishes the plan.
func (f *scalingSearch) decide() *ScalingDecision {
	p := f.best
	v := p.worth()
	d := &ScalingDecision{Status: StatusFeasible, Cost: publish(v.cost), Replicas: []Replicas{}, Why: p.explain()}
	for w := range p.in.work {
		d.Penalty += p.in.penalty * p.in.work[w].unmet(p.total[w])
		d.Replicas = append(d.Replicas, p.replicas(int32(w)))
	}
	d.Penalty = publish(d.Penalty)
	d.Bound = math.Min(d.Cost, publish(f.lower(v.short)))
	if f.proven() {
		d.Status, d.Bound = StatusOptimal, d.Cost
	}
	if d.Cost > 0 {
		d.Gap = publish((d.Cost - d.Bound) / d.Cost)
	}
	return d
}

// replicas is one workload's part of the decision.
func (p *plan) replicas(w int32) Replicas {
	work := &p.in.work[w]
	r := Replicas{Service: p.in.s.Services[work.tightest].Name, Current: work.current, Total: p.total[w],
		Unmet: publish(work.unmet(p.total[w])), Short: max(0, work.low-p.total[w]), Nodes: make(map[string]int)}
	for _, s := range work.at {
		r.Nodes[p.in.s.Nodes[s.node].Name] = s.count
	}
	for _, s := range p.change[w] {
		name := p.in.s.Nodes[s.node].Name
		if r.Nodes[name] += s.count; r.Nodes[name] == 0 {
			delete(r.Nodes, name)
		}
	}
	return r
}

// SPDX-License-Identifier: Apache-2.0

package model

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// remark is one line of why, and its weight in units of the objective.
type remark struct {
	weight float64
	text   string
}

// explain says what each move gains and costs, and what keeps the plan from gaining more; the heaviest first.
// The first line sums up.
func (r *result) explain() []string {
	remarks := append(r.gains(), r.obstacles()...)
	slices.SortStableFunc(remarks, func(a, b remark) int { return cmp.Compare(b.weight, a.weight) })
	out := []string{r.summary()}
	for _, m := range remarks {
		out = append(out, m.text)
	}
	return out
}

// summary is the plan in one line.
func (r *result) summary() string {
	f, s := r.f, r.f.s
	switch {
	case len(r.moved) > 0:
		return fmt.Sprintf("%s gain %.1f%%: imbalance within nodes %.4g to %.4g, between nodes %.4g to %.4g",
			counted(len(r.moved), "move"), 100*(r.before-r.objective())/r.before, r.withinBefore, r.spread,
			r.betweenBefore, r.between())
	case len(f.pods) == 0:
		return "nothing moves: " + r.stuckPods()
	case r.least < r.before-settled:
		return fmt.Sprintf("nothing moves: the best plan gains %.1f%%, less than minGain %.1f%%",
			100*(r.before-r.least)/r.before, 100*s.Migration.MinGain)
	case r.before <= settled:
		return "nothing moves: all loads are equal"
	case r.bound >= r.before*(1-closed):
		return "nothing moves: no plan gains"
	}
	return "nothing moves: no plan that gains was found in time"
}

func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// stuckPods says why no pod may move.
func (r *result) stuckPods() string {
	var parts []string
	add := func(n int, why string) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%s %s", counted(n, "pod"), why))
		}
	}
	add(r.f.stuck.pinned, "not movable")
	add(r.f.stuck.homeless, "on nodes that are out")
	add(r.f.stuck.hemmed, "without a target that has room and time")
	if parts == nil {
		return "there are no pods"
	}
	return strings.Join(parts, ", ")
}

// gains has one line per move: what its undoing would lose, what it costs.
func (r *result) gains() []remark {
	f, s := r.f, r.f.s
	out := make([]remark, 0, len(r.moved))
	for _, p := range slices.Sorted(slices.Values(r.moved)) {
		d := r.delta(p, f.home[p])
		out = append(out, remark{d, fmt.Sprintf("%s: from %s to %s gains %.4g (%.1f%%), takes %.3g s", s.Pods[f.pods[p]].Name,
			r.node(f.home[p]), r.node(r.at[p]), d, 100*d/r.before, f.moveTime(p, r.at[p]))})
	}
	return out
}

func (r *result) node(n int32) string { return r.f.s.Nodes[r.f.nodes[n]].Name }

// obstacles has one line per constraint that keeps out a single further transfer which would gain: the most that
// any would. It looks at the transfers that the linear programme took up, and at all where these are few.
func (r *result) obstacles() []remark {
	best := make(map[string]transfer)
	for _, t := range r.attractive() {
		if t.to == r.at[t.pod] {
			continue
		}
		t.worth = r.delta(t.pod, t.to)
		if t.worth > -closed*r.before || r.fits(t.pod, t.to) {
			continue
		}
		name := r.obstacle(t)
		if known, ok := best[name]; !ok || t.worth < known.worth {
			best[name] = t
		}
	}
	out := make([]remark, 0, len(best))
	for name, t := range best {
		out = append(out, remark{-t.worth, fmt.Sprintf("%s keeps %s from moving to %s, which would gain %.4g (%.1f%%)",
			name, r.f.s.Pods[r.f.pods[t.pod]].Name, r.node(t.to), -t.worth, -100*t.worth/r.before)})
	}
	slices.SortFunc(out, func(a, b remark) int { return strings.Compare(a.text, b.text) })
	return out
}

// attractive lists the transfers that are looked at.
func (r *result) attractive() []transfer {
	const few = 20_000
	f := r.f
	if len(f.pods)*len(f.nodes) > few {
		return r.hot
	}
	var out []transfer
	for p := range f.pods {
		for _, d := range f.candidates(int32(p)) {
			if f.allowed(int32(p), d) {
				out = append(out, transfer{pod: int32(p), to: d})
			}
		}
	}
	return out
}

// obstacle names the constraint that t breaks; one does.
func (r *result) obstacle(t transfer) string {
	f := r.f
	if r.place[t.pod] < 0 && len(r.moved) >= f.maxMoves {
		return fmt.Sprintf("maxMoves %d", f.maxMoves)
	}
	for k, name := range f.s.Resources {
		at, of := int(t.to)*f.kinds+k, int(t.pod)*f.kinds+k
		if r.came[at]+f.demand[of] > f.room[at]*(1+fitTolerance) {
			return fmt.Sprintf("free %s of %s", name, r.node(t.to))
		}
		if r.asked[at]+f.request[of] > f.free[at]*(1+fitTolerance) {
			return fmt.Sprintf("allocatable %s of %s", name, r.node(t.to))
		}
	}
	return fmt.Sprintf("the time budget of %.4g s", f.budget)
}

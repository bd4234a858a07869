// SPDX-License-Identifier: Apache-2.0

package model

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// explain says, one line per workload that is short or changes, what happens and what binds; first minima that
// don't fit, then the largest penalties, then the largest changes.
func (p *plan) explain() []string {
	type line struct {
		short   int
		penalty float64
		change  int
		text    string
	}
	var lines []line
	for i := range p.in.work {
		w := &p.in.work[i]
		l := line{short: max(0, w.low-p.total[i]), penalty: p.in.penalty * w.unmet(p.total[i]),
			change: max(p.total[i]-w.current, w.current-p.total[i])}
		switch unmet := w.unmet(p.total[i]); {
		case l.short > 0:
			l.text = fmt.Sprintf("%s: %d of at least %s, %s", p.in.name(w), p.total[i], pods(w.low), p.binding(int32(i)))
		case unmet > 0:
			l.text = fmt.Sprintf("%s: short by %.6g of %.6g tasks with %s%s, %s", p.in.name(w), unmet, w.demand,
				pods(p.total[i]), p.others(w, p.total[i]), p.binding(int32(i)))
		case l.change > 0:
			l.text = p.changed(int32(i))
		default:
			continue
		}
		lines = append(lines, l)
	}
	slices.SortStableFunc(lines, func(a, b line) int {
		return cmp.Or(cmp.Compare(b.short, a.short), cmp.Compare(b.penalty, a.penalty), cmp.Compare(b.change, a.change))
	})
	out := make([]string, len(lines))
	for i := range lines {
		out[i] = lines[i].text
	}
	return out
}

func pods(n int) string {
	if n == 1 {
		return "1 pod"
	}
	return fmt.Sprintf("%d pods", n)
}

func (in *scaling) name(w *workload) string { return in.s.Services[w.tightest].Name }

// others names the other ports of w that are short, too.
func (p *plan) others(w *workload, x int) string {
	n := 0
	for _, l := range w.services {
		if v := &p.in.s.Services[l]; l != w.tightest && p.in.demandOf[l] > v.SLATasksPerPod*float64(x)*(1+needTolerance) {
			n++
		}
	}
	switch n {
	case 0:
		return ""
	case 1:
		return " (1 more of its ports is, too)"
	}
	return fmt.Sprintf(" (%d more of its ports are, too)", n)
}

// changed tells why a workload whose tasks are met grows or shrinks, and where.
func (p *plan) changed(i int32) string {
	w := &p.in.work[i]
	reason := fmt.Sprintf("%.6g tasks at %.6g a pod", w.demand, w.sla)
	switch x := p.total[i]; {
	case x == w.low && x > w.wanted():
		reason = fmt.Sprintf("the minimum, for %s", reason)
	case x == w.high && w.current > w.high:
		reason = fmt.Sprintf("the maximum, for %s", reason)
	}
	return fmt.Sprintf("%s: %d to %s, %s, %s", p.in.name(w), w.current, pods(p.total[i]), reason, p.where(i))
}

// where lists the first nodes that gain or lose pods.
func (p *plan) where(i int32) string {
	const most = 3
	spots := slices.Clone(p.change[i])
	slices.SortFunc(spots, func(a, b spot) int {
		return cmp.Or(cmp.Compare(max(b.count, -b.count), max(a.count, -a.count)), cmp.Compare(a.node, b.node))
	})
	var parts []string
	for _, s := range spots[:min(most, len(spots))] {
		parts = append(parts, fmt.Sprintf("%+d on %s", s.count, p.in.s.Nodes[s.node].Name))
	}
	text := strings.Join(parts, ", ")
	if len(spots) > most {
		text += fmt.Sprintf(" and %d more nodes", len(spots)-most)
	}
	return text
}

// binding says what keeps another pod of w out: its own maximum, the nodes' room, or its cost.
func (p *plan) binding(i int32) string {
	w := &p.in.work[i]
	if p.total[i] >= w.high {
		return fmt.Sprintf("its maximum is %d", w.high)
	}
	lacking := make([]int, p.in.resources)
	open := 0
	for n := range int32(len(p.in.open)) {
		if !p.in.open[n] {
			continue
		}
		if p.fits(i, n) {
			if p.total[i] < w.current {
				return "its pods make room for others" // and it may not grow elsewhere: that were a relocation
			}
			return fmt.Sprintf("another pod costs %.6g and saves less", w.energy+w.deploy)
		}
		open++
		lacking[p.scarcest(i, n)]++
	}
	if open == 0 {
		return "no node is ready"
	}
	k := 0
	for j := range lacking {
		if lacking[j] > lacking[k] {
			k = j
		}
	}
	return fmt.Sprintf("no node has room: %d of %d lack %s for %.6g more", lacking[k], open, p.in.s.Resources[k], w.request[k])
}

// scarcest is the resource of which n has the least of what a pod of w asks for.
func (p *plan) scarcest(w, n int32) int {
	best, part := 0, inf
	for k, r := range p.in.work[w].request {
		if r == 0 {
			continue
		}
		if have := p.left[int(n)*p.in.resources+k] / r; have < part {
			best, part = k, have
		}
	}
	return best
}

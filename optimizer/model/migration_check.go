// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"math"
	"slices"
)

// checkMigration proves a plan against the snapshot alone, by names and sums of its own: every move is allowed,
// all fit together, and the published values are those of the plan. It returns ErrUncertified with the fault.
func checkMigration(s *Snapshot, d *MigrationDecision) error {
	c := newMigrationCheck(s)
	for _, m := range d.Moves {
		if err := c.move(m); err != nil {
			return fmt.Errorf("move of %s from %s to %s: %w", m.Pod, m.From, m.To, err)
		}
	}
	if err := c.caps(d); err != nil {
		return err
	}
	return c.values(d)
}

type migrationCheck struct {
	s     *Snapshot
	pods  map[string]*Pod
	nodes map[string]*Node
	// by node: what load changes by, what arrived, what requests arrived
	change, came, asked map[string]Quantities
	seconds             float64
}

func newMigrationCheck(s *Snapshot) *migrationCheck {
	c := &migrationCheck{s: s, pods: make(map[string]*Pod), nodes: make(map[string]*Node),
		change: make(map[string]Quantities), came: make(map[string]Quantities), asked: make(map[string]Quantities)}
	for i := range s.Pods {
		c.pods[s.Pods[i].Name] = &s.Pods[i]
	}
	for i := range s.Nodes {
		c.nodes[s.Nodes[i].Name] = &s.Nodes[i]
		c.change[s.Nodes[i].Name] = Quantities{}
		c.came[s.Nodes[i].Name], c.asked[s.Nodes[i].Name] = Quantities{}, Quantities{}
	}
	return c
}

func uncertified(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrUncertified, fmt.Sprintf(format, args...))
}

// move books one move, or says why it is not allowed. A pod moves once: its entry goes.
func (c *migrationCheck) move(m Move) error {
	p, from, to := c.pods[m.Pod], c.nodes[m.From], c.nodes[m.To]
	switch {
	case p == nil || from == nil || to == nil:
		return uncertified("unknown name, or the pod moves twice")
	case p.Node != m.From || m.From == m.To:
		return uncertified("wrong source")
	case !p.Movable || !p.Ready || p.Draining:
		return uncertified("pod may not move")
	case !c.takesPart(from) || !c.takesPart(to):
		return uncertified("node is out")
	case p.Targets != nil && !slices.Contains(p.Targets, m.To):
		return uncertified("no target of the pod")
	}
	delete(c.pods, m.Pod)
	for _, k := range c.s.Resources {
		c.change[m.From][k] -= p.Used[k]
		c.change[m.To][k] += p.Used[k]
		c.came[m.To][k] += p.Used[k]
		c.asked[m.To][k] += p.Request[k]
	}
	time := seconds(c.s.Migration.MoveOverhead)
	if !slices.Contains(to.Images, p.Image) {
		time += p.ImageBytes / to.PullBandwidth
	}
	c.seconds += time
	return nil
}

// takesPart: ready, some capacity, none of it 0.
func (c *migrationCheck) takesPart(n *Node) bool {
	some := false
	for _, k := range c.s.Resources {
		v, ok := n.Capacity[k]
		if ok && v == 0 {
			return false
		}
		some = some || ok
	}
	return n.Ready && some
}

const checkTolerance = 1e-8

func exceeds(v, limit float64) bool { return v > limit*(1+checkTolerance) }

// caps checks rooms, allocatables, time and number.
func (c *migrationCheck) caps(d *MigrationDecision) error {
	for i := range c.s.Nodes {
		n := &c.s.Nodes[i]
		for _, k := range c.s.Resources {
			if v, ok := n.Capacity[k]; ok && exceeds(c.came[n.Name][k], math.Max(0, v-n.Used[k])) {
				return uncertified("node %s: %v of %s arrives, more than is free", n.Name, c.came[n.Name][k], k)
			}
			if v, ok := n.Allocatable[k]; ok && exceeds(c.asked[n.Name][k], math.Max(0, v-n.Requested[k])) {
				return uncertified("node %s: requests of %v of %s arrive, more than is allocatable", n.Name, c.asked[n.Name][k], k)
			}
		}
	}
	budget := c.s.Migration.MaxTimeShare * seconds(c.s.Slice)
	if exceeds(c.seconds, budget) || math.Abs(c.seconds-d.Seconds) > checkTolerance*math.Max(1, c.seconds) {
		return uncertified("moves take %v s, published %v, budget %v", c.seconds, d.Seconds, budget)
	}
	if most := c.s.Migration.MaxMoves; most > 0 && len(d.Moves) > most {
		return uncertified("%d moves, at most %d", len(d.Moves), most)
	}
	return nil
}

// values checks before, after and their order with the bound.
func (c *migrationCheck) values(d *MigrationDecision) error {
	before, _, _ := c.objective(false)
	after, within, between := c.objective(true)
	after += c.s.Migration.MoveCost * float64(len(d.Moves))
	for _, v := range []struct {
		name      string
		got, want float64
	}{{"before", d.Before, before}, {"after", d.After, after}, {"withinNodes", d.WithinNodes, within},
		{"betweenNodes", d.BetweenNodes, between}} {
		if math.Abs(v.got-v.want) > checkTolerance*math.Max(math.Max(before, v.want), 1e-6) {
			return uncertified("%s is %v, published %v", v.name, v.want, v.got)
		}
	}
	if d.After > d.Before || d.Bound > d.After {
		return uncertified("bound %v, after %v and before %v are out of order", d.Bound, d.After, d.Before)
	}
	return nil
}

// objective is Σ_n var_k + clusterWeight · var_n, before or after the moves, and its parts.
func (c *migrationCheck) objective(moved bool) (value, within, between float64) {
	var levels []float64
	for i := range c.s.Nodes {
		n := &c.s.Nodes[i]
		if !c.takesPart(n) {
			continue
		}
		var r, w []float64
		for _, k := range c.s.Resources {
			capacity, ok := n.Capacity[k]
			if !ok {
				continue
			}
			used := n.Used[k]
			if moved {
				used += c.change[n.Name][k]
			}
			r, w = append(r, used/capacity), append(w, n.Weights[k])
		}
		within += variance(r)
		levels = append(levels, weightedMean(r, w))
	}
	between = variance(levels)
	return within + c.s.Migration.ClusterWeight*between, within, between
}

// weightedMean is the plain mean where the weights are all 0.
func weightedMean(v, weights []float64) float64 {
	sum, total, plain := 0.0, 0.0, 0.0
	for i, x := range v {
		sum, total, plain = sum+weights[i]*x, total+weights[i], plain+x
	}
	if total == 0 {
		return plain / float64(len(v))
	}
	return sum / total
}

// variance is the population variance, 0 of nothing.
func variance(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	mean, sum := 0.0, 0.0
	for _, x := range v {
		mean += x / float64(len(v))
	}
	for _, x := range v {
		sum += (x - mean) * (x - mean)
	}
	return sum / float64(len(v))
}

// SPDX-License-Identifier: Apache-2.0

package model

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// bruteMigration is the least objective over all plans, by enumeration on the snapshot alone.
func bruteMigration(s *Snapshot) (before, least float64) {
	value := func(moves []Move) float64 {
		d := &MigrationDecision{Moves: moves}
		c := newMigrationCheck(s)
		for _, m := range moves {
			if c.move(m) != nil {
				return inf
			}
		}
		d.Seconds = c.seconds
		if c.caps(d) != nil {
			return inf
		}
		v, _, _ := c.objective(true)
		return v + s.Migration.MoveCost*float64(len(moves))
	}
	before = value(nil)
	least = before
	enough := before * (1 - s.Migration.MinGain) * (1 + fitTolerance)
	var walk func(p int, moves []Move)
	walk = func(p int, moves []Move) {
		if p == len(s.Pods) {
			if v := value(moves); v <= enough {
				least = math.Min(least, v)
			}
			return
		}
		walk(p+1, moves)
		for n := range s.Nodes {
			if s.Nodes[n].Name != s.Pods[p].Node {
				walk(p+1, append(slices.Clone(moves), Move{Pod: s.Pods[p].Name, From: s.Pods[p].Node, To: s.Nodes[n].Name}))
			}
		}
	}
	walk(0, nil)
	return before, least
}

func TestMigrateEqualsBruteForce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawFleet(t)
		showOnFailure(t, s)
		before, least := bruteMigration(s)
		d, err := Migrate(context.Background(), s)
		if err != nil {
			t.Fatal(err)
		}
		near := func(a, b float64) bool { return math.Abs(a-b) <= 2*closed*math.Max(b, 1e-7) }
		if !near(d.Before, before) || !near(d.After, least) || !near(d.Bound, least) || d.Status != StatusOptimal {
			t.Fatalf("%s: before %v, after %v, bound %v, want %v, %v, %v", d.Status, d.Before, d.After, d.Bound, before, least, least)
		}
		if d.Gap != 0 || d.Left != 0 || d.Budget != s.Migration.MaxTimeShare*60 || d.SolveMillis > 10_000 {
			t.Fatalf("gap %v, left %v, budget %v, %v ms", d.Gap, d.Left, d.Budget, d.SolveMillis)
		}
		if len(d.Why) == 0 || slices.ContainsFunc(d.Why, func(line string) bool { return strings.ContainsAny(line, "\n") }) {
			t.Fatalf("why %q", d.Why)
		}
	})
}

// TestDeltas: a delta is the difference of objectives, after any walk, and what fits is feasible.
func TestDeltas(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawFleet(t)
		f, err := compileFleet(s)
		if err != nil || len(f.pods) == 0 {
			return
		}
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "walk"), 0))
		here, anew := newPlacement(f), newPlacement(f)
		for range 30 {
			p, to := int32(r.IntN(len(f.pods))), int32(r.IntN(len(f.nodes)))
			if to == here.at[p] || !here.fits(p, to) {
				continue
			}
			before, d := here.objective(), here.delta(p, to)
			here.move(p, to)
			anew.set(here.at)
			if got := anew.objective() - before; math.Abs(got-d) > 1e-12 || math.Abs(here.objective()-anew.objective()) > 1e-12 {
				t.Fatalf("delta %v, want %v", d, got)
			}
			if math.Abs(here.time-anew.time) > 1e-9 || !anew.feasible() {
				t.Fatalf("%v s, want %v s; feasible %v", here.time, anew.time, anew.feasible())
			}
		}
	})
}

// TestAnyPricesBound: whatever the prices, no plan lies below their bound.
func TestAnyPricesBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawFleet(t)
		s.Migration.MinGain = 0
		f, err := compileFleet(s)
		if err != nil || len(f.pods) == 0 {
			return
		}
		_, least := bruteMigration(s)
		squares := f.squares()
		v := newPrices(f, squares)
		price := func(name string) float64 { return float64(rapid.IntRange(-8, 8).Draw(t, name)) / 32 }
		for j := range v.y {
			v.y[j] = price("y")
		}
		for i := range v.room {
			if f.room[i] < inf {
				v.room[i] = max(0, price("room"))
			}
			if f.free[i] < inf {
				v.free[i] = max(0, price("free"))
			}
		}
		v.time = max(0, price("time"))
		g := f.price(squares, v, nil, nil)
		if g.bound > least+1e-9 {
			t.Fatalf("bound %v above the optimum %v", g.bound, least)
		}
		for p := range f.pods { // and no plan with a transfer below that transfer's
			for d := range f.nodes {
				if f.allowed(int32(p), int32(d)) {
					if with := g.with(f, int32(p), int32(d)); with < g.fixed+g.gain-1e-9 {
						t.Fatalf("bound with a transfer %v below that without %v", with, g.fixed+g.gain)
					}
				}
			}
		}
	})
}

func TestMigrateIsDeterministic(t *testing.T) {
	for _, c := range []struct{ nodes, pods, moves int }{{5, 20, 4}, {10, 50, 5}} {
		s := spread(c.nodes, c.pods, c.moves, 3)
		s.Migration.TimeLimit = Duration(time.Minute)
		var texts []string
		for range 2 {
			d, err := Migrate(context.Background(), s)
			if err != nil || d.Status != StatusOptimal {
				t.Fatal(d, err)
			}
			d.SolveMillis = 0
			text, err := json.Marshal(d)
			if err != nil {
				t.Fatal(err)
			}
			texts = append(texts, string(text))
		}
		if texts[0] != texts[1] {
			t.Errorf("%v: two answers\n%s\n%s", c, texts[0], texts[1])
		}
	}
}

func TestMigrateKeepsItsTime(t *testing.T) {
	s := spread(100, 1000, 0, 1)
	for _, limit := range []time.Duration{time.Millisecond, 50 * time.Millisecond, time.Second} {
		s.Migration.TimeLimit = Duration(limit)
		began := time.Now()
		d, err := Migrate(context.Background(), s)
		if err != nil {
			t.Fatal(err)
		}
		const late = time.Second // under the race detector, on a busy machine
		if took := time.Since(began); took > limit+late {
			t.Errorf("limit %v: took %v", limit, took)
		}
		if d.Status != StatusFeasible || d.After > d.Before || d.Gap <= 0 || d.Left <= 0 || d.Left > 1 {
			t.Errorf("limit %v: %s, %v to %v, gap %v, left %v", limit, d.Status, d.Before, d.After, d.Gap, d.Left)
		}
	}
}

func TestMigrateEndsWithItsContext(t *testing.T) {
	s := spread(100, 1000, 0, 1)
	s.Migration.TimeLimit = Duration(time.Minute)
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	began := time.Now()
	d, err := Migrate(ctx, s)
	if err != nil || d.After >= d.Before {
		t.Fatal(d, err)
	}
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("took %v", took)
	}
}

// pairOfNodes is two nodes, one with two pods of 2 of its 8 cores, the other empty.
func pairOfNodes() *Snapshot {
	s := NewSnapshot()
	s.Migration.TimeLimit = Duration(time.Minute) // no proof here may depend on how busy the machine is
	s.Resources = []string{"cpu"}
	for i, used := range []float64{4, 0} {
		n := newNode()
		n.Name, n.Capacity, n.Used = fmt.Sprint("n", i), Quantities{"cpu": 8}, Quantities{"cpu": used}
		s.Nodes = append(s.Nodes, n)
	}
	for i := range 2 {
		p := newPod()
		p.Name, p.Workload, p.Node, p.Used = fmt.Sprint("p", i), "w", "n0", Quantities{"cpu": 2}
		p.Request = Quantities{"cpu": 2}
		s.Pods = append(s.Pods, p)
	}
	return s
}

func TestMigrationRules(t *testing.T) {
	for name, c := range map[string]struct {
		change func(s *Snapshot)
		moves  int
		why    string
	}{
		"balances":         {func(*Snapshot) {}, 1, "1 move gain 100.0%"},
		"none movable":     {func(s *Snapshot) { s.Pods[0].Movable, s.Pods[1].Draining = false, true }, 0, "nothing moves: 2 pods not movable"},
		"no pods":          {func(s *Snapshot) { s.Pods = nil }, 0, "nothing moves: there are no pods"},
		"no nodes":         {func(s *Snapshot) { s.Pods, s.Nodes = nil, nil }, 0, "nothing moves: there are no pods"},
		"target not ready": {func(s *Snapshot) { s.Nodes[1].Ready = false }, 0, "without a target"},
		"target of size 0": {func(s *Snapshot) { s.Nodes[1].Capacity["cpu"] = 0 }, 0, "without a target"},
		"source out":       {func(s *Snapshot) { s.Nodes[0].Ready = false }, 0, "2 pods on nodes that are out"},
		"target has left":  {func(s *Snapshot) { s.Pods[0].Targets, s.Pods[1].Targets = []string{"gone"}, []string{} }, 0, "2 pods without a target"},
		"target is full":   {func(s *Snapshot) { s.Nodes[1].Used["cpu"] = 7; s.Nodes[0].Used["cpu"] = 8 }, 0, "2 pods without a target"},
		"just fits": {func(s *Snapshot) {
			s.Nodes[1].Capacity["cpu"], s.Nodes[1].Used["cpu"] = 4, 2
			s.Nodes[0].Used["cpu"] = 8
		}, 1, "1 move"},
		"nothing requested": {func(s *Snapshot) { s.Nodes[1].Allocatable = Quantities{"cpu": 1} }, 0, "2 pods without a target"},
		"no time":           {func(s *Snapshot) { s.Migration.MoveOverhead = Duration(7 * time.Second) }, 0, "2 pods without a target"},
		"pull takes too long": {func(s *Snapshot) {
			s.Pods[0].Image, s.Pods[0].ImageBytes = "i", 12.5e6*6.1
			s.Pods[1].Image, s.Pods[1].ImageBytes = "i", 12.5e6*6.1
		}, 0, "2 pods without a target"},
		"image is there": {func(s *Snapshot) {
			s.Pods[0].Image, s.Pods[0].ImageBytes, s.Nodes[1].Images = "i", 1e12, []string{"i"}
			s.Pods[1].Movable = false
		}, 1, "1 move"},
		"gains too little":  {func(s *Snapshot) { s.Migration.MinGain = 1; s.Nodes[0].Used["cpu"] = 5 }, 0, "less than minGain 100.0%"},
		"costs too much":    {func(s *Snapshot) { s.Migration.MoveCost = 0.07 }, 0, "no plan gains"},
		"is worth its cost": {func(s *Snapshot) { s.Migration.MoveCost = 0.05 }, 1, "1 move gain 20.0%"},
		"equal loads":       {func(s *Snapshot) { s.Nodes[1].Used["cpu"] = 4 }, 0, "all loads are equal"},
		"cluster weight 0":  {func(s *Snapshot) { s.Migration.ClusterWeight = 0 }, 0, "all loads are equal"},
	} {
		t.Run(name, func(t *testing.T) {
			s := pairOfNodes()
			c.change(s)
			d, err := Migrate(context.Background(), s)
			if err != nil {
				t.Fatal(err)
			}
			if len(d.Moves) != c.moves || d.Status != StatusOptimal || !strings.Contains(d.Why[0], c.why) {
				t.Errorf("%s: %v, why %q", d.Status, d.Moves, d.Why)
			}
		})
	}
}

// TestDeparturesAreNotCredited: pods can't change places where neither node has room for both.
func TestDeparturesAreNotCredited(t *testing.T) {
	s := pairOfNodes()
	s.Resources = []string{"cpu", "memory"}
	for n, used := range []Quantities{{"cpu": 8, "memory": 2}, {"cpu": 2, "memory": 8}} {
		s.Nodes[n].Capacity, s.Nodes[n].Used = Quantities{"cpu": 9, "memory": 9}, used
	}
	s.Pods[0].Used, s.Pods[1].Used, s.Pods[1].Node = Quantities{"cpu": 4}, Quantities{"memory": 4}, "n1"
	d, err := Migrate(context.Background(), s)
	if err != nil || len(d.Moves) != 2 {
		t.Fatal(d, err)
	}
	s.Nodes[0].Used["memory"], s.Nodes[1].Used["cpu"] = 6, 6 // each would fit only once the other has gone
	s.Pods[0].Used["memory"], s.Pods[1].Used["cpu"] = 4, 4
	if d, err = Migrate(context.Background(), s); err != nil || len(d.Moves) != 0 {
		t.Fatal(d, err)
	}
}

func TestObstacles(t *testing.T) {
	for want, change := range map[string]func(s *Snapshot){
		"maxMoves 1 keeps p":             func(s *Snapshot) { s.Migration.MaxMoves = 1 },
		"the time budget of 6 s keeps p": func(s *Snapshot) { s.Migration.MoveOverhead = Duration(4 * time.Second) },
		"free cpu of n1 keeps p":         func(s *Snapshot) { s.Nodes[1].Used["cpu"], s.Nodes[0].Used["cpu"] = 5, 40 },
		"allocatable cpu of n1 keeps p":  func(s *Snapshot) { s.Nodes[1].Allocatable = Quantities{"cpu": 3} },
	} {
		s := pairOfNodes()
		s.Nodes[0].Used["cpu"] = 8
		change(s)
		d, err := Migrate(context.Background(), s)
		if err != nil || len(d.Moves) != 1 || !slices.ContainsFunc(d.Why, func(line string) bool { return strings.HasPrefix(line, want) }) {
			t.Errorf("want %q in %q, %v", want, d.Why, err)
		}
	}
}

// TestCheckMigration: the check refuses each way in which a plan can be wrong.
func TestCheckMigration(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Snapshot)
		spoil  func(*MigrationDecision)
	}{
		"moves twice":     {nil, func(d *MigrationDecision) { d.Moves = append(d.Moves, d.Moves[0]) }},
		"unknown node":    {nil, func(d *MigrationDecision) { d.Moves[0].To = "n9" }},
		"wrong source":    {nil, func(d *MigrationDecision) { d.Moves[0].From = "n1" }},
		"not movable":     {func(s *Snapshot) { s.Pods[0].Movable, s.Pods[1].Movable = false, false }, nil},
		"no target":       {func(s *Snapshot) { s.Pods[0].Targets, s.Pods[1].Targets = []string{}, []string{} }, nil},
		"node out":        {func(s *Snapshot) { s.Nodes[1].Ready = false }, nil},
		"no room":         {func(s *Snapshot) { s.Nodes[1].Used["cpu"] = 7 }, nil},
		"not allocatable": {func(s *Snapshot) { s.Nodes[1].Allocatable = Quantities{}; s.Nodes[1].Allocatable["cpu"] = 1 }, nil},
		"no time":         {func(s *Snapshot) { s.Migration.MoveOverhead = Duration(time.Hour) }, nil},
		"after":           {nil, func(d *MigrationDecision) { d.After *= 2; d.After += 0.01 }},
		"before":          {nil, func(d *MigrationDecision) { d.Before /= 2 }},
		"bound":           {nil, func(d *MigrationDecision) { d.Bound = d.After + 1 }},
	} {
		t.Run(name, func(t *testing.T) {
			s := pairOfNodes()
			d, err := Migrate(context.Background(), s)
			if err != nil || len(d.Moves) != 1 {
				t.Fatal(d, err)
			}
			if c.change != nil {
				c.change(s)
			}
			if c.spoil != nil {
				c.spoil(d)
			}
			if err := checkMigration(s, d); !errors.Is(err, ErrUncertified) {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestMigrateRefusesBadInput(t *testing.T) {
	s := pairOfNodes()
	s.Pods[0].Used["cpu"] = math.NaN()
	var field *FieldError
	if _, err := Migrate(context.Background(), s); !errors.As(err, &field) || field.Path != "pods[0].used.cpu" {
		t.Errorf("error %v", err)
	}
}

// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"math"
	"slices"
)

// weightTolerance is how far a node's weights may be from adding up to 1.
const weightTolerance = 1e-6

// names gives the index of every named thing of a snapshot, and remembers which resources are known.
type names struct {
	resources, nodes, services, pods map[string]int32
}

// Validate says what is wrong with s first, as one line (FieldError): unknown or doubled names, negative or
// non-finite numbers, shares outside 0..1, weights that don't add up, settings that don't exist.
func (s *Snapshot) Validate() error {
	if err := s.validate(); err != nil {
		return fmt.Errorf("snapshot: %w", err)
	}
	return nil
}

func (s *Snapshot) validate() error {
	if s.Version != Version {
		return bad("version", s.Version, fmt.Sprintf("this build reads version %d", Version))
	}
	if s.Period <= 0 {
		return bad("period", s.Period.String(), "want more than 0")
	}
	if s.Slice < s.Period {
		return bad("slice", s.Slice.String(), "want the period or more")
	}
	known, err := s.index()
	if err != nil {
		return err
	}
	for _, check := range []func(names) error{s.checkNodes, s.checkServices, s.checkPods, s.checkArrivals} {
		if err := check(known); err != nil {
			return err
		}
	}
	return firstOf(s.Dispatch.check(), s.Migration.check(), s.Scaling.check())
}

// index numbers the names and refuses empty and doubled ones.
func (s *Snapshot) index() (names, error) {
	n := names{make(map[string]int32), make(map[string]int32), make(map[string]int32), make(map[string]int32)}
	for i, r := range s.Resources {
		if err := add(n.resources, r, i, "resources[%d]"); err != nil {
			return n, err
		}
	}
	for i, r := range s.Stock {
		if _, ok := n.resources[r]; !ok && r != "memory" {
			return n, bad(fmt.Sprintf("stock[%d]", i), r, "not in resources")
		}
	}
	for i := range s.Nodes {
		if err := add(n.nodes, s.Nodes[i].Name, i, "nodes[%d].name"); err != nil {
			return n, err
		}
	}
	for i := range s.Services {
		if err := add(n.services, s.Services[i].Name, i, "services[%d].name"); err != nil {
			return n, err
		}
	}
	for i := range s.Pods {
		if err := add(n.pods, s.Pods[i].Name, i, "pods[%d].name"); err != nil {
			return n, err
		}
	}
	return n, nil
}

func add(to map[string]int32, name string, i int, path string) error {
	if name == "" {
		return bad(fmt.Sprintf(path, i), "", "want a name")
	}
	if _, ok := to[name]; ok {
		return bad(fmt.Sprintf(path, i), name, "comes twice")
	}
	to[name] = int32(i)
	return nil
}

func bad(path string, value any, want string) error {
	return &FieldError{Path: path, Value: fmt.Sprint(value), Want: want}
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *Snapshot) checkNodes(known names) error {
	for i := range s.Nodes {
		n, at := &s.Nodes[i], pathTo("nodes", i)
		err := firstOf(
			amounts(at, "capacity", n.Capacity, known.resources, true),
			amounts(at, "used", n.Used, known.resources, true),
			amounts(at, "allocatable", n.Allocatable, known.resources, true),
			amounts(at, "requested", n.Requested, known.resources, true),
			amounts(at, "weights", n.Weights, known.resources, false),
			positive(at, "pullBandwidth", n.PullBandwidth))
		if err != nil {
			return err
		}
		if n.Weights == nil {
			continue
		}
		sum := 0.0
		for _, w := range n.Weights {
			sum += w
		}
		if math.Abs(sum-1) > weightTolerance {
			return bad(at.field("weights"), sum, "want weights that add up to 1")
		}
	}
	return nil
}

func (s *Snapshot) checkServices(known names) error {
	for i := range s.Services {
		v, at := &s.Services[i], pathTo("services", i)
		err := firstOf(
			amounts(at, "taskCost", v.TaskCost, known.resources, true),
			amounts(at, "podRequest", v.PodRequest, known.resources, false),
			amount(at, "slaTasksPerPod", v.SLATasksPerPod),
			amount(at, "energyCost", v.EnergyCost),
			amount(at, "deployCost", v.DeployCost),
			amount(at, "minReplicas", float64(v.MinReplicas)),
			amount(at, "maxReplicas", float64(v.MaxReplicas)))
		if err != nil {
			return err
		}
		if v.MaxReplicas > 0 && v.MinReplicas > v.MaxReplicas {
			return bad(at.field("minReplicas"), v.MinReplicas, fmt.Sprintf("want at most maxReplicas %d", v.MaxReplicas))
		}
		if v.SLATasksPerPod > 0 && v.PodRequest == nil {
			return bad(at.field("podRequest"), "", "required where slaTasksPerPod is given")
		}
	}
	return nil
}

func (s *Snapshot) checkPods(known names) error {
	for i := range s.Pods {
		p, at := &s.Pods[i], pathTo("pods", i)
		err := firstOf(
			exists(at, "node", p.Node, known.nodes),
			allExist(at, "services", p.Services, known.services),
			amounts(at, "capacity", p.Capacity, known.resources, false),
			amounts(at, "used", p.Used, known.resources, false),
			amounts(at, "request", p.Request, known.resources, false),
			amounts(at, "tasks", p.Tasks, known.services, false),
			amount(at, "imageBytes", p.ImageBytes))
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *Snapshot) checkArrivals(known names) error {
	seen := newPairs(len(s.Services), len(s.Nodes), len(s.Arrivals))
	for i := range s.Arrivals {
		a := &s.Arrivals[i]
		service, okService := known.services[a.Service]
		node, okNode := known.nodes[a.Node]
		twice := okService && okNode && !seen.add(service, node)
		if okService && okNode && !twice && a.Tasks >= 0 && a.Last >= 0 && a.SliceTasks >= 0 &&
			a.Tasks+a.Last+a.SliceTasks <= math.MaxFloat64 && a.Pods == nil {
			continue // the common case, a million times in a large snapshot
		}
		at := pathTo("arrivals", i)
		err := firstOf(exists(at, "service", a.Service, known.services), exists(at, "node", a.Node, known.nodes),
			amount(at, "tasks", a.Tasks), amount(at, "last", a.Last), amount(at, "sliceTasks", a.SliceTasks),
			allExist(at, "pods", a.Pods, known.pods))
		if err != nil {
			return err
		}
		if twice {
			return bad(string(at), a.Service+" at "+a.Node, "comes twice")
		}
		for j, name := range a.Pods {
			if !slices.Contains(s.Pods[known.pods[name]].Services, a.Service) {
				return bad(at.field(fmt.Sprintf("pods[%d]", j)), name, "does not serve "+a.Service)
			}
		}
	}
	return nil
}

func (p *DispatchSettings) check() error {
	order := []Stage{StageThroughput, StageBalance, StageLocality}
	if len(p.Stages) == 0 || len(p.Stages) > len(order) {
		return bad("dispatch.stages", p.Stages, "want throughput, then balance, then locality")
	}
	for i, stage := range p.Stages {
		if stage != order[i] {
			return bad(fmt.Sprintf("dispatch.stages[%d]", i), stage, fmt.Sprintf("want %s", order[i]))
		}
	}
	if p.Shortage != ShortageThroughput && p.Shortage != ShortageMaxMin {
		return bad("dispatch.shortage", p.Shortage, "want throughput or maxmin")
	}
	const at, tiers = path("dispatch"), path("dispatch.tiers")
	err := firstOf(share(at, "headroom", p.Headroom), share(at, "maxUtilisation", p.MaxUtilisation),
		amount(tiers, "node", p.Tiers.Node), amount(tiers, "zone", p.Tiers.Zone), amount(tiers, "else", p.Tiers.Else))
	switch {
	case err != nil:
		return err
	case p.Tiers.Zone < p.Tiers.Node:
		return bad("dispatch.tiers.zone", p.Tiers.Zone, "want at least node's")
	case p.Tiers.Else < p.Tiers.Zone:
		return bad("dispatch.tiers.else", p.Tiers.Else, "want at least zone's")
	}
	return nil
}

func (m *MigrationSettings) check() error {
	const at = path("migration")
	return firstOf(share(at, "maxTimeShare", m.MaxTimeShare), amount(at, "maxMoves", float64(m.MaxMoves)),
		share(at, "minGain", m.MinGain), amount(at, "moveCost", m.MoveCost),
		amount(at, "moveOverhead", float64(m.MoveOverhead)), amount(at, "clusterWeight", m.ClusterWeight),
		positive(at, "timeLimit", float64(m.TimeLimit)), amount(at, "seed", float64(m.Seed)))
}

func (s *ScalingSettings) check() error {
	const at = path("scaling")
	return firstOf(amount(at, "energyWeight", s.EnergyWeight), amount(at, "deployWeight", s.DeployWeight),
		amount(at, "unmetPenalty", s.UnmetPenalty), positive(at, "timeLimit", float64(s.TimeLimit)))
}

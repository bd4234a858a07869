// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"math"
	"slices"
)

// absent marks a number that the document leaves out until its default is known.
var absent = math.NaN()

// DecodeSnapshot reads and validates one snapshot, with defaults for what it leaves out. Errors are one line:
// the field's path, its value and what was wanted (FieldError).
func DecodeSnapshot(data []byte) (*Snapshot, error) {
	d := decoder{scanner{buf: data, intern: make(map[string]string)}}
	s := NewSnapshot()
	s.Version = 0
	if err := d.snapshot(s); err != nil {
		return nil, fmt.Errorf("snapshot: %w", err)
	}
	if d.next() != 0 {
		return nil, fmt.Errorf("snapshot: %w", d.fail(d.token(), "want the end of the document"))
	}
	complete(s)
	if err := s.Validate(); err != nil {
		return nil, err
	}
	return s, nil
}

// complete fills the defaults that depend on other fields.
func complete(s *Snapshot) {
	for i := range s.Services {
		if s.Services[i].Workload == "" {
			s.Services[i].Workload = s.Services[i].Name
		}
	}
	for i := range s.Pods {
		if s.Pods[i].Workload == "" {
			s.Pods[i].Workload = s.Pods[i].Name
		}
	}
	perSlice := float64(s.Slice) / float64(s.Period)
	for i := range s.Arrivals {
		a := &s.Arrivals[i]
		if math.IsNaN(a.Last) {
			a.Last = a.Tasks
		}
		if math.IsNaN(a.SliceTasks) {
			a.SliceTasks = a.Tasks * perSlice
		}
	}
}

// decoder maps the contract's fields to the snapshot's.
type decoder struct{ scanner }

func (d *decoder) snapshot(s *Snapshot) error {
	if d.next() != '{' {
		return d.fail(d.token(), "want an object")
	}
	return d.object(func(key string) error {
		switch key {
		case "version":
			return d.version(&s.Version)
		case "period":
			return d.duration(&s.Period)
		case "slice":
			return d.duration(&s.Slice)
		case "resources":
			return d.texts(&s.Resources)
		case "stock":
			return d.texts(&s.Stock)
		case "nodes":
			return list(d, &s.Nodes, newNode, d.node)
		case "services":
			return list(d, &s.Services, newService, d.service)
		case "pods":
			return list(d, &s.Pods, newPod, d.pod)
		case "arrivals":
			return list(d, &s.Arrivals, func() Arrival { return Arrival{Last: absent, SliceTasks: absent} }, d.arrival)
		case "migration":
			return d.migration(&s.Migration)
		case "scaling":
			return d.scaling(&s.Scaling)
		case "dispatch":
			return d.dispatch(&s.Dispatch)
		}
		return d.unknown()
	})
}

// list reads an array of objects, each begun with its defaults.
func list[T any](d *decoder, to *[]T, begin func() T, read func(*T) error) error {
	return d.array(func(int) error {
		if n := len(*to); n == cap(*to) {
			*to = slices.Grow(*to, n+1) // doubles: append would copy a million arrivals ten times
		}
		*to = append(*to, begin())
		return read(&(*to)[len(*to)-1])
	})
}

// version is read at once, so that a document of the future fails by its version and not by a new field.
func (d *decoder) version(to *int) error {
	if err := d.integer(to); err != nil {
		return err
	}
	return d.checkVersion(*to)
}

func (d *decoder) checkVersion(v int) error {
	if v != Version {
		return d.fail(fmt.Sprint(v), fmt.Sprintf("this build reads version %d", Version))
	}
	return nil
}

func (d *decoder) node(n *Node) error {
	return d.object(func(key string) error {
		switch key {
		case "name":
			return d.text(&n.Name)
		case "zone":
			return d.text(&n.Zone)
		case "ready":
			return d.flag(&n.Ready)
		case "capacity":
			return d.quantities(&n.Capacity)
		case "used":
			return d.quantities(&n.Used)
		case "allocatable":
			return d.quantities(&n.Allocatable)
		case "requested":
			return d.quantities(&n.Requested)
		case "images":
			return d.texts(&n.Images)
		case "pullBandwidth":
			return d.float(&n.PullBandwidth)
		case "weights":
			return d.quantities(&n.Weights)
		}
		return d.unknown()
	})
}

func (d *decoder) service(v *Service) error {
	return d.object(func(key string) error {
		switch key {
		case "name":
			return d.text(&v.Name)
		case "workload":
			return d.text(&v.Workload)
		case "taskCost":
			return d.quantities(&v.TaskCost)
		case "slaTasksPerPod":
			return d.float(&v.SLATasksPerPod)
		case "energyCost":
			return d.float(&v.EnergyCost)
		case "deployCost":
			return d.float(&v.DeployCost)
		case "minReplicas":
			return d.integer(&v.MinReplicas)
		case "maxReplicas":
			return d.integer(&v.MaxReplicas)
		case "podRequest":
			return d.quantities(&v.PodRequest)
		}
		return d.unknown()
	})
}

func (d *decoder) pod(p *Pod) error {
	return d.object(func(key string) error {
		switch key {
		case "name":
			return d.text(&p.Name)
		case "workload":
			return d.text(&p.Workload)
		case "services":
			return d.texts(&p.Services)
		case "node":
			return d.text(&p.Node)
		case "ready":
			return d.flag(&p.Ready)
		case "draining":
			return d.flag(&p.Draining)
		case "capacity":
			return d.quantities(&p.Capacity)
		case "used":
			return d.quantities(&p.Used)
		case "request":
			return d.quantities(&p.Request)
		case "tasks":
			return d.quantities(&p.Tasks)
		case "image":
			return d.text(&p.Image)
		case "imageBytes":
			return d.float(&p.ImageBytes)
		case "movable":
			return d.flag(&p.Movable)
		case "targets":
			return d.texts(&p.Targets)
		}
		return d.unknown()
	})
}

func (d *decoder) arrival(a *Arrival) error {
	return d.object(func(key string) error {
		switch key {
		case "service":
			return d.text(&a.Service)
		case "node":
			return d.text(&a.Node)
		case "tasks":
			return d.float(&a.Tasks)
		case "last":
			return d.float(&a.Last)
		case "sliceTasks":
			return d.float(&a.SliceTasks)
		case "pods":
			return d.texts(&a.Pods)
		}
		return d.unknown()
	})
}

func (d *decoder) migration(m *MigrationSettings) error {
	return d.object(func(key string) error {
		switch key {
		case "maxTimeShare":
			return d.float(&m.MaxTimeShare)
		case "maxMoves":
			return d.integer(&m.MaxMoves)
		case "minGain":
			return d.float(&m.MinGain)
		case "moveCost":
			return d.float(&m.MoveCost)
		case "moveOverhead":
			return d.duration(&m.MoveOverhead)
		case "clusterWeight":
			return d.float(&m.ClusterWeight)
		case "timeLimit":
			return d.duration(&m.TimeLimit)
		case "seed":
			return d.integer(&m.Seed)
		}
		return d.unknown()
	})
}

func (d *decoder) scaling(s *ScalingSettings) error {
	return d.object(func(key string) error {
		switch key {
		case "energyWeight":
			return d.float(&s.EnergyWeight)
		case "deployWeight":
			return d.float(&s.DeployWeight)
		case "unmetPenalty":
			return d.float(&s.UnmetPenalty)
		case "timeLimit":
			return d.duration(&s.TimeLimit)
		}
		return d.unknown()
	})
}

func (d *decoder) dispatch(p *DispatchSettings) error {
	return d.object(func(key string) error {
		switch key {
		case "stages":
			var names []string
			if err := d.texts(&names); err != nil || names == nil {
				return err
			}
			p.Stages = make([]Stage, len(names))
			for i, n := range names {
				p.Stages[i] = Stage(n)
			}
			return nil
		case "headroom":
			return d.float(&p.Headroom)
		case "maxUtilisation":
			return d.float(&p.MaxUtilisation)
		case "shortage":
			return d.text((*string)(&p.Shortage))
		case "tiers":
			return d.tiers(&p.Tiers)
		}
		return d.unknown()
	})
}

func (d *decoder) tiers(t *Tiers) error {
	return d.object(func(key string) error {
		switch key {
		case "node":
			return d.float(&t.Node)
		case "zone":
			return d.float(&t.Zone)
		case "else":
			return d.float(&t.Else)
		}
		return d.unknown()
	})
}

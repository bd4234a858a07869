// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"fmt"
	"math"
	"time"
)

// shareTolerance is how far a sum of shares may stand from what it must be:
// solutions come from a solver with tolerances of 1e-7 per row.
const shareTolerance = 1e-6

// Share is how one service's tasks at one place are split.
type Share struct {
	// Admitted is the part of the tasks, 0..1, that the pods have room for.
	Admitted float64 `json:"admitted"`
	// Pods holds each pod's part of the tasks; zero parts are left out. They
	// sum to Admitted. Readers normalise: IPVS cannot refuse a task.
	Pods map[string]float64 `json:"pods"`
}

// Split is the overall split of one service, for every node (Zone empty) or for
// the nodes of one zone. The optimizer writes it, agents read it.
type Split struct {
	Version int       `json:"version"`
	Epoch   int64     `json:"epoch"`
	Period  int64     `json:"period"`
	At      time.Time `json:"at"`
	Service string    `json:"service"`
	Zone    string    `json:"zone,omitempty"`
	Share
}

// Ratios is what holds at one node instead of the split, by service.
type Ratios struct {
	Version  int              `json:"version"`
	Epoch    int64            `json:"epoch"`
	Period   int64            `json:"period"`
	At       time.Time        `json:"at"`
	Node     string           `json:"node"`
	Services map[string]Share `json:"services"`
}

func (s *Split) validate() error {
	if err := checkVersion(s.Version); err != nil {
		return err
	}
	if err := checkName("service", s.Service); err != nil {
		return err
	}
	if err := checkStamp(s.Epoch, s.Period); err != nil {
		return err
	}
	return s.Share.validate("")
}

func (r *Ratios) validate() error {
	if err := checkVersion(r.Version); err != nil {
		return err
	}
	if err := checkName("node", r.Node); err != nil {
		return err
	}
	if err := checkStamp(r.Epoch, r.Period); err != nil {
		return err
	}
	for name, s := range r.Services {
		if err := checkName("services", name); err != nil {
			return err
		}
		if err := s.validate("services." + name + "."); err != nil {
			return err
		}
	}
	return nil
}

func (s Share) validate(prefix string) error {
	if err := checkShare(prefix+"admitted", s.Admitted); err != nil {
		return err
	}
	sum := 0.0
	for pod, y := range s.Pods {
		if err := checkName(prefix+"pods", pod); err != nil {
			return err
		}
		if err := checkShare(prefix+"pods."+pod, y); err != nil {
			return err
		}
		sum += y
	}
	if math.Abs(sum-s.Admitted) > shareTolerance {
		return fieldError(prefix+"pods", sum, fmt.Sprintf("a sum of admitted, which is %g", s.Admitted))
	}
	return nil
}

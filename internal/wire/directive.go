// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"fmt"
	"time"
)

// Reasons of a slot.
const (
	ForMigration = "migration"
	ForScaling   = "scaling"
)

// States of a claim. A slot whose pod vanished or was bound elsewhere has no
// claim any more, so that the next pod can take it.
const (
	Claimed = "claimed" // a pod holds the slot and is not bound yet
	Landed  = "landed"  // the pod was bound to the slot's node
	LetGo   = "let-go"  // the deadline has passed: Why tells what was missing
)

// Limits of a directive.
const (
	maxSlots = 1000
	maxDelay = 24 * time.Hour
	maxUID   = 64
	maxText  = 1000
)

// Directive tells the scheduler extender where the next pods of one controller
// belong. It is written by the optimizer; a directive without slots withdraws
// the one before it.
type Directive struct {
	Version int       `json:"version"`
	Epoch   int64     `json:"epoch"`
	At      time.Time `json:"at"`
	// Owner is the UID of the pods' controller: for a Deployment's pods that
	// of the ReplicaSet.
	Owner string `json:"owner"`
	// Workload is what a person calls the owner: namespace/Kind/name.
	Workload string `json:"workload"`
	Slots    []Slot `json:"slots"`
}

// Slot is a place for one pod.
type Slot struct {
	// ID is unique among all slots that the owner ever has.
	ID string `json:"id"`
	// Node is the target.
	Node string `json:"node"`
	// Reason is ForMigration or ForScaling.
	Reason string `json:"reason"`
	// Source is the node that the pod must not go back to; empty: none.
	Source string `json:"source,omitempty"`
	// Deadline is until when a pod waits for Node.
	Deadline time.Time `json:"deadline"`
	// Claim is what became of the slot, nil while it is free. The optimizer
	// leaves it out; readers get it with the slot.
	Claim *Claim `json:"claim,omitempty"`
}

// Claim ties a slot to the pod that took it.
type Claim struct {
	Version int `json:"version"`
	// Pod is its UID and Name its namespace/name; both are empty where no pod
	// came until the deadline.
	Pod  string `json:"pod,omitempty"`
	Name string `json:"name,omitempty"`
	// At is when State was reached.
	At    time.Time `json:"at"`
	State string    `json:"state"`
	// Why is the reason of LetGo.
	Why string `json:"why,omitempty"`
}

// Deadline returns the last deadline of d's slots; zero where it has none.
func (d *Directive) Deadline() time.Time {
	var last time.Time
	for i := range d.Slots {
		if at := d.Slots[i].Deadline; at.After(last) {
			last = at
		}
	}
	return last
}

func (d *Directive) validate() error {
	if err := checkVersion(d.Version); err != nil {
		return err
	}
	if err := checkStamp(d.Epoch, 0); err != nil {
		return err
	}
	if err := checkUID("owner", d.Owner); err != nil {
		return err
	}
	if err := checkName("workload", d.Workload); err != nil {
		return err
	}
	if len(d.Slots) > maxSlots {
		return fieldError("slots", len(d.Slots), fmt.Sprintf("at most %d", maxSlots))
	}
	seen := make(map[string]bool, len(d.Slots))
	for i := range d.Slots {
		s := &d.Slots[i]
		field := fmt.Sprintf("slots[%d].", i)
		if err := s.validate(field, d.At); err != nil {
			return err
		}
		if seen[s.ID] {
			return fieldError(field+"id", s.ID, "an id that no other slot has")
		}
		seen[s.ID] = true
	}
	return nil
}

func (s *Slot) validate(field string, written time.Time) error {
	if err := checkUID(field+"id", s.ID); err != nil {
		return err
	}
	if err := checkName(field+"node", s.Node); err != nil {
		return err
	}
	if s.Reason != ForMigration && s.Reason != ForScaling {
		return fieldError(field+"reason", s.Reason, ForMigration+" or "+ForScaling)
	}
	if s.Source != "" {
		if err := checkName(field+"source", s.Source); err != nil {
			return err
		}
		if s.Source == s.Node {
			return fieldError(field+"source", s.Source, "another node than the target")
		}
	}
	// A slot may be written again after its deadline, to be kept in the list.
	if s.Deadline.IsZero() || s.Deadline.After(written.Add(maxDelay)) {
		return fieldError(field+"deadline", s.Deadline.Format(time.RFC3339), "at most a day after the directive")
	}
	if s.Claim != nil {
		return s.Claim.check(field + "claim.")
	}
	return nil
}

func (c *Claim) validate() error { return c.check("") }

func (c *Claim) check(field string) error {
	if err := checkVersion(c.Version); err != nil {
		return err
	}
	switch c.State {
	case Claimed, Landed, LetGo:
	default:
		return fieldError(field+"state", c.State, Claimed+", "+Landed+" or "+LetGo)
	}
	if len(c.Why) > maxText {
		return fieldError(field+"why", c.Why, fmt.Sprintf("at most %d bytes", maxText))
	}
	if c.Pod == "" && c.Name == "" && c.State == LetGo {
		return nil
	}
	if err := checkUID(field+"pod", c.Pod); err != nil {
		return err
	}
	return checkName(field+"name", c.Name)
}

// checkUID checks an identifier that becomes part of a key.
func checkUID(field, id string) error {
	if len(id) > maxUID {
		return fieldError(field, id, fmt.Sprintf("at most %d characters", maxUID))
	}
	return checkName(field, id)
}

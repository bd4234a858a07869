// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"context"
	"sync"
	"time"

	"github.com/edgeweir/weir/internal/wire"
)

// placement is a pod with its slot.
type placement struct {
	pod            podRef
	owner, slot    string
	target, source string
	deadline       time.Time
	state          string // of wire.Claim
	// since is when this replica learned of it.
	since time.Time
	// refusals counts the calls that did not offer the target; waiting says
	// that the last one did not, unfit that this was after the scheduler had
	// tried the target, as it tries a nominated node before all others.
	refusals       int
	waiting, unfit bool
	// nominated counts the nominations, pending says that one is under way.
	nominated int
	pending   bool
	// unfollow ends the watch of the pod.
	unfollow context.CancelFunc
}

// desk holds the pods that have a slot, by UID, and the claims under way.
type desk struct {
	mu     sync.Mutex
	placed map[string]*placement
	claims map[string]*claiming
}

func newDesk() *desk {
	return &desk{placed: map[string]*placement{}, claims: map[string]*claiming{}}
}

// find returns what pod holds.
func (d *desk) find(pod string) (placement, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	p, ok := d.placed[pod]
	if !ok {
		return placement{}, false
	}
	return *p, true
}

// update changes what pod holds, if it holds something.
func (d *desk) update(pod string, change func(*placement)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if p, ok := d.placed[pod]; ok {
		change(p)
	}
}

// list returns all placements.
func (d *desk) list() []placement {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := make([]placement, 0, len(d.placed))
	for _, p := range d.placed {
		all = append(all, *p)
	}
	return all
}

// place puts a pod with its slot on the desk and says whether it is new there.
func (d *desk) place(pod podRef, owner string, s *wire.Slot, state string, unfollow context.CancelFunc) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, ok := d.placed[pod.UID]; ok {
		return false
	}
	d.placed[pod.UID] = &placement{
		pod: pod, owner: owner, slot: s.ID, target: s.Node, source: s.Source, deadline: s.Deadline,
		state: state, since: time.Now(), unfollow: unfollow,
	}
	return true
}

// drop takes a pod off the desk.
func (d *desk) drop(pod string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if p, ok := d.placed[pod]; ok {
		p.unfollow()
		delete(d.placed, pod)
	}
}

// stale returns the placements that b, which was read later, no longer holds.
func (d *desk) stale(b *book) []placement {
	d.mu.Lock()
	defer d.mu.Unlock()
	var gone []placement
	for _, p := range d.placed {
		if p.since.After(b.asked) {
			continue
		}
		if e := b.owners[p.owner]; e != nil {
			if s := e.slot(p.slot); s != nil && s.Claim != nil && s.Claim.Pod == p.pod.UID {
				continue
			}
		}
		gone = append(gone, *p)
	}
	return gone
}

// missed says that a call of pod has gone without the answer to its claim.
func (d *desk) missed(pod string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.claims[pod]
	return c != nil && c.missed
}

// forget drops claims that began before and have ended.
func (d *desk) forget(before time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for pod, c := range d.claims {
		if c.first.Before(before) && !c.underWay() {
			delete(d.claims, pod)
		}
	}
}

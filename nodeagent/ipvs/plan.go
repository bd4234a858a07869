// SPDX-License-Identifier: Apache-2.0

package ipvs

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"
)

// Kind says what an Op does.
type Kind uint8

// The kinds of operations.
const (
	CreateService Kind = iota + 1
	UpdateService
	RemoveService
	AddDestination
	UpdateDestination
	RemoveDestination
)

func (k Kind) String() string {
	names := [...]string{"", "create service", "update service", "remove service",
		"add destination", "update destination", "remove destination"}
	if int(k) < len(names) {
		return names[k]
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// Op is one write to the table. Service carries no destinations; Destination
// is set for the kinds that name one.
type Op struct {
	Kind        Kind
	Service     Service
	Destination Destination
}

func (o Op) String() string {
	if o.Kind == AddDestination || o.Kind == UpdateDestination || o.Kind == RemoveDestination {
		return fmt.Sprintf("%s %s of %s (weight %d)", o.Kind, o.Destination.Endpoint(), o.Service.Key(), o.Destination.Weight)
	}
	return fmt.Sprintf("%s %s (%s)", o.Kind, o.Service.Key(), o.Service.Scheduler)
}

// Drain is how the destinations of TCP and SCTP services leave: at weight 0
// first, removed when no connection of theirs is active or after Limit.
// Removing one that is in use would black-hole its connections.
type Drain struct {
	Limit time.Duration
	since map[drained]time.Time
}

type drained struct {
	service  Key
	endpoint netip.AddrPort
}

// Draining returns how many destinations wait to be removed.
func (d Drain) Draining() int { return len(d.since) }

// Plan returns the writes that turn have into want, whose keys and endpoints are
// distinct, in the order in which they have to be made, and the drain to pass to the next call. Nothing is planned
// for what is equal. Virtual servers for which owned is false are never
// written, wanted or not.
//
// A virtual server that is owned but not wanted goes like its destinations do;
// its address has to stay on the node until it is no longer in a dump.
func Plan(have, want []Service, owned func(Key) bool, now time.Time, drain Drain) ([]Op, Drain) {
	p := planner{now: now, before: drain, after: Drain{Limit: drain.Limit, since: map[drained]time.Time{}}}
	present := make(map[Key]Service, len(have))
	for _, s := range have {
		present[s.Key()] = s
	}
	for _, w := range want {
		h, found := present[w.Key()]
		delete(present, w.Key())
		switch {
		case !owned(w.Key()):
		case !found:
			p.create(w)
		default:
			p.update(h, w)
		}
	}
	for _, k := range slices.SortedFunc(maps.Keys(present), Key.Compare) {
		if owned(k) {
			p.retire(present[k])
		}
	}
	return p.ops, p.after
}

type planner struct {
	now           time.Time
	before, after Drain
	ops           []Op
}

func (p *planner) add(kind Kind, s Service, d Destination) {
	s.Destinations = nil
	p.ops = append(p.ops, Op{Kind: kind, Service: s, Destination: d})
}

func (p *planner) create(w Service) {
	p.add(CreateService, w, Destination{})
	for _, d := range w.Destinations {
		p.add(AddDestination, w, d)
	}
}

// update orders the writes so that a service that has a destination with weight
// keeps one all along: additions, then rises, then falls, then removals.
func (p *planner) update(h, w Service) {
	if h.Scheduler != w.Scheduler || h.Affinity != w.Affinity || h.Flags != w.flags() || h.Netmask != w.netmask() {
		p.add(UpdateService, w, Destination{})
	}
	present := make(map[netip.AddrPort]Destination, len(h.Destinations))
	for _, d := range h.Destinations {
		present[d.Endpoint()] = d
	}
	var rises, falls []Destination
	for _, d := range w.Destinations {
		old, found := present[d.Endpoint()]
		delete(present, d.Endpoint())
		switch {
		case !found:
			p.add(AddDestination, w, d)
		case old.Weight < d.Weight, old.Method != 0:
			rises = append(rises, d)
		case old.Weight > d.Weight:
			falls = append(falls, d)
		}
	}
	for _, d := range append(rises, falls...) {
		p.add(UpdateDestination, w, d)
	}
	for _, e := range slices.SortedFunc(maps.Keys(present), netip.AddrPort.Compare) {
		p.leave(w, present[e])
	}
}

// retire removes a service whose destinations have all left.
func (p *planner) retire(h Service) {
	start := len(p.ops)
	waiting := false
	for _, d := range h.Destinations {
		waiting = p.leave(h, d) || waiting
	}
	if !waiting {
		// The kernel removes the destinations with their service.
		p.ops = p.ops[:start]
		p.add(RemoveService, h, Destination{})
	}
}

// leave plans the next step of a destination that has to go and says whether it
// stays for now. UDP has no end of a connection to wait for: a flow would stick
// to a dead pod, so it goes at once. The others first get weight 0, and a dump
// after that decides: an idle one may have got a connection since the last dump.
func (p *planner) leave(s Service, d Destination) (stays bool) {
	key := drained{s.Key(), d.Endpoint()}
	since, waiting := p.before.since[key]
	if !waiting {
		since = p.now
	}
	idle := d.Weight == 0 && d.ActiveConns == 0
	late := waiting && p.now.Sub(since) >= p.before.Limit
	if s.Protocol == UDP || idle || late {
		p.add(RemoveDestination, s, d)
		return false
	}
	p.after.since[key] = since
	if d.Weight != 0 {
		d.Weight = 0
		p.add(UpdateDestination, s, d)
	}
	return true
}

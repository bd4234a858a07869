// SPDX-License-Identifier: Apache-2.0

package nodeagent

import (
	"net/netip"

	"github.com/edgeweir/weir/internal/cluster"
	"github.com/edgeweir/weir/internal/wire"
	"github.com/edgeweir/weir/nodeagent/ipvs"
)

// balance is what the agent remembers of one service from period to period.
type balance struct {
	ratios ratios // in force, smoothed; nil: none yet
	last   ratios // the optimizer's last y, as it came
	// servers by virtual server.
	servers map[ipvs.Key]*serverState
}

// serverState is what the agent remembers of one virtual server.
type serverState struct {
	choice ipvs.Choice
	carry  ipvs.Carry
	// connections are IPVS's counts at the last dump, by endpoint and in all.
	connections map[netip.AddrPort]uint32
	total       uint32
	// seen counts the connections since the agent began.
	seen uint64
	// known says that a dump or a write of this agent's has been seen: what a
	// first dump counts is a predecessor's.
	known bool
}

func newBalance() *balance { return &balance{servers: map[ipvs.Key]*serverState{}} }

func (b *balance) server(k ipvs.Key) *serverState {
	s, ok := b.servers[k]
	if !ok {
		s = &serverState{connections: map[netip.AddrPort]uint32{}}
		b.servers[k] = s
	}
	return s
}

// hear takes the optimizer's share of a new period: y_t.
func (b *balance) hear(share wire.Share) {
	y := ratios(share.Pods).normalise()
	b.ratios, b.last = smooth(b.last, y), y
}

// inherit takes scheduler, weights and ratios from a virtual server that a
// predecessor left, so that a restart changes no weight. Weight 0 tells nothing
// of ratios: it may be a drain that ended long ago.
func (b *balance) inherit(v server, have ipvs.Service) {
	state := b.server(v.key)
	if state.known {
		return
	}
	state.choice.Scheduler, state.carry = have.Scheduler, ipvs.Resume(have)
	if b.ratios != nil {
		return
	}
	r := ratios{}
	for _, d := range have.Destinations {
		if pod, ok := v.pods[d.Endpoint()]; ok && d.Weight > 0 {
			r[pod] = float64(d.Weight)
		}
	}
	if len(r) > 0 {
		b.ratios = r.normalise()
		b.last = b.ratios
	}
}

// wanted returns the ratios to enforce for l, past being the periods since the
// stale limit (≤ 0: fresh).
func (b *balance) wanted(l service, past float64) ratios {
	if l.Mode != cluster.Enforce {
		return ratios(nil).over(l.ready)
	}
	return b.ratios.over(l.ready).drift(past)
}

// observe takes what a dump says of one virtual server, and returns the
// connections that each pod got since the last dump.
func (s *serverState) observe(v server, have ipvs.Service) map[string]float64 {
	got := map[string]float64{}
	now := make(map[netip.AddrPort]uint32, len(have.Destinations))
	for _, d := range have.Destinations {
		now[d.Endpoint()] = d.Connections
		pod, ok := v.pods[d.Endpoint()]
		if !ok {
			continue
		}
		if s.known {
			got[pod] += float64(ipvs.Delta(s.connections[d.Endpoint()], d.Connections))
		}
	}
	if s.known {
		s.seen += uint64(ipvs.Delta(s.total, have.Connections))
	}
	s.connections, s.total, s.known = now, have.Connections, true
	return got
}

// program returns the virtual server to have: scheduler and weights.
func (s *serverState) program(l service, v server, node string, r ratios, inFlight float64, demand ipvs.Demand) ipvs.Service {
	s.known = true
	s.choice = ipvs.Choose(l.Scheduler, v.key.Protocol, inFlight, s.choice)
	shares := make(ipvs.Shares, len(v.pods))
	for endpoint, pod := range v.pods {
		shares[endpoint] = r[pod] // 0 for a terminating pod
	}
	var weights map[netip.AddrPort]uint32
	weights, s.carry = ipvs.Apportion(s.choice.Scheduler, shares, demand, s.carry)
	want := ipvs.Service{Address: v.key.Address, Port: v.key.Port, Protocol: v.key.Protocol, Scheduler: s.choice.Scheduler}
	for endpoint, w := range weights {
		want.Destinations = append(want.Destinations, ipvs.Destination{Address: endpoint.Addr(), Port: endpoint.Port(), Weight: w})
	}
	ipvs.Stagger(node, want.Destinations)
	return want
}

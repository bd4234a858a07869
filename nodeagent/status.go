// SPDX-License-Identifier: Apache-2.0

package nodeagent

import (
	"time"

	"github.com/edgeweir/weir/internal/wire"
	"github.com/edgeweir/weir/nodeagent/ipvs"
)

// show renews the status after a reconcile.
func (l *loop) show(have, want []ipvs.Service, ops []ipvs.Op, now time.Time) {
	past := l.fresh.past(now, l.config.Period, l.config.StalePeriods)
	s := &wire.AgentStatus{
		Node: l.config.Node, Version: l.config.Version, At: now.UTC(), Attachment: string(l.counter.Attachment()),
		Epoch: l.fresh.last.Epoch, Period: l.fresh.last.Period, Stale: past > 0,
		SilentFor: now.Sub(l.fresh.since).Round(time.Millisecond).String(), Draining: l.drain.Draining(), Writes: len(ops),
	}
	present, wanted, tasks := byKey(have), byKey(want), l.applied.ByService()
	for _, d := range l.desired.services {
		b := l.balance(d.Name)
		r := b.wanted(d, past)
		for _, v := range d.servers {
			state := b.server(v.key)
			row := wire.ServerStatus{
				Service: d.Name, Address: v.key.String(), Mode: string(d.Mode), Asked: d.Scheduler, Scheduler: state.choice.Scheduler,
				InFlight: state.choice.InFlight, Expected: l.expected[d.Name], Tasks: tasks[d.Name], Connections: state.seen,
				Pods: map[string]wire.PodStatus{},
			}
			for _, w := range wanted[v.key].Destinations {
				pod := v.pods[w.Endpoint()]
				row.Pods[pod] = wire.PodStatus{
					Ratio: r[pod], Weight: w.Weight, Measured: l.taken[d.Name][pod],
					Active: activeOf(present[v.key], w),
				}
			}
			s.Services = append(s.Services, row)
		}
	}
	l.status.Store(s)
}

func activeOf(s ipvs.Service, want ipvs.Destination) uint32 {
	for _, d := range s.Destinations {
		if d.Endpoint() == want.Endpoint() {
			return d.ActiveConns
		}
	}
	return 0
}

// SPDX-License-Identifier: Apache-2.0

package nodeagent

import (
	"fmt"
	"time"

	"github.com/edgeweir/weir/nodeagent/arrivals"
)

// lastID is where the ids of the filler's rows start, downwards: the counters'
// own start at 1, upwards.
const lastID = ^uint32(0)

// filler adds what the hooks in use can't see, from IPVS's own counters: clients
// in the node's own namespace where counting is per device, everything where
// nothing is attached. What IPVS has seen and the hooks have not is counted as
// the node's own.
//
// IPVS's counters lag by up to two seconds, so a difference shows only once it
// is larger than any before; it never shrinks again.
type filler struct {
	idle  bool
	epoch string
	base  map[string]uint64 // the hooks' counts at the start, by service
	added map[string]uint64
	ids   map[string]uint32 // of the rows, by service
}

func newFiller(a arrivals.Attachment, start time.Time) *filler {
	return &filler{
		idle: a.SeesLocal(), epoch: fmt.Sprint(start.UnixNano()),
		added: map[string]uint64{}, ids: map[string]uint32{},
	}
}

// fill returns totals with a row for what IPVS saw beyond them, seen being
// IPVS's connections by service since the agent began. The epoch then is the
// agent's own too: seen starts anew with it.
func (f *filler) fill(totals arrivals.Totals, seen map[string]uint64) arrivals.Totals {
	if f.idle {
		return totals
	}
	hooks := totals.ByService()
	if f.base == nil {
		f.base = hooks
	}
	totals.Epoch += "/" + f.epoch
	for service, n := range seen {
		if hooked := hooks[service] - f.base[service]; n > hooked {
			f.added[service] = max(f.added[service], n-hooked)
		}
	}
	for service, n := range f.added {
		totals.Rows = append(totals.Rows, arrivals.Row{
			Service: service, Origin: arrivals.OriginSelf, ServiceID: f.id(service), OriginID: lastID, Tasks: n,
		})
	}
	return totals
}

func (f *filler) id(service string) uint32 {
	id, ok := f.ids[service]
	if !ok {
		id = lastID - uint32(len(f.ids))
		f.ids[service] = id
	}
	return id
}

// SPDX-License-Identifier: Apache-2.0

package arrivals

import (
	"cmp"
	"slices"

	"github.com/edgeweir/weir/bpf"
)

// Totals are counts of tasks since the counters were made. They only grow, and
// can be compared within one Epoch.
type Totals struct {
	Epoch string `json:"epoch"`
	Rows  []Row  `json:"rows"` // sorted by ids
	// Overflow are tasks that no row had room for, of services unknown.
	Overflow uint64 `json:"overflow,omitempty"`
}

// Row is the tasks of one service from one origin. The ids tell a name that came
// back after it was forgotten from its earlier self.
type Row struct {
	Service   string `json:"service"`
	Origin    string `json:"origin"`
	ServiceID uint32 `json:"serviceID"`
	OriginID  uint32 `json:"originID"`
	Tasks     uint64 `json:"tasks"`
}

type rowID struct{ service, origin uint32 }

func (r Row) id() rowID { return rowID{r.ServiceID, r.OriginID} }

// newTotals names the rows. What has no name any more counts as overflow.
func newTotals(epoch string, rows map[bpf.ArrivalsArrivalKey]uint64, names map[bpf.ArrivalsNameKey]string) Totals {
	t := Totals{Epoch: epoch, Rows: make([]Row, 0, len(rows))}
	for key, tasks := range rows {
		if !named(names, key) {
			t.Overflow += tasks
			continue
		}
		t.Rows = append(t.Rows, Row{
			Service:   names[bpf.ArrivalsNameKey{Kind: kindService, Id: key.Service}],
			Origin:    names[bpf.ArrivalsNameKey{Kind: kindOrigin, Id: key.Origin}],
			ServiceID: key.Service, OriginID: key.Origin, Tasks: tasks,
		})
	}
	slices.SortFunc(t.Rows, func(a, b Row) int {
		return cmp.Or(cmp.Compare(a.ServiceID, b.ServiceID), cmp.Compare(a.OriginID, b.OriginID))
	})
	return t
}

// ByService sums the rows over their origins.
func (t Totals) ByService() map[string]uint64 {
	sums := map[string]uint64{}
	for _, r := range t.Rows {
		sums[r.Service] += r.Tasks
	}
	return sums
}

// Delta returns what arrived between two readings: rows whose counts grew, by so
// much. From another epoch, or from the zero Totals, all that cur holds arrived
// since. Adding up the deltas of a chain of readings gives the last of them.
func Delta(prev, cur Totals) Totals {
	before := make(map[rowID]uint64, len(prev.Rows))
	var overflow uint64
	if prev.Epoch == cur.Epoch {
		overflow = prev.Overflow
		for _, r := range prev.Rows {
			before[r.id()] = r.Tasks
		}
	}
	d := Totals{Epoch: cur.Epoch, Overflow: grown(overflow, cur.Overflow)}
	for _, r := range cur.Rows {
		if r.Tasks = grown(before[r.id()], r.Tasks); r.Tasks > 0 {
			d.Rows = append(d.Rows, r)
		}
	}
	return d
}

// grown is the growth of a count that can't shrink; if it did, someone reset it,
// and all of it is new.
func grown(prev, cur uint64) uint64 {
	if cur < prev {
		return cur
	}
	return cur - prev
}

// SPDX-License-Identifier: Apache-2.0

package nodeagent

import (
	"time"

	"github.com/edgeweir/weir/internal/wire"
)

// freshness tells how long the optimizer has been silent, by this node's own
// clock: a pulse counts when it differs from the last one, so that no clock of
// another machine matters.
type freshness struct {
	last  wire.Pulse
	since time.Time // when it came, or when the agent began
}

// hear takes a pulse (nil: none) and says whether it is a new one.
func (f *freshness) hear(p *wire.Pulse, now time.Time) bool {
	if p == nil || p.Epoch == f.last.Epoch && p.Period == f.last.Period {
		return false
	}
	f.last, f.since = *p, now
	return true
}

// past returns by how many periods now is past the stale limit; ≤ 0 is fresh.
func (f *freshness) past(now time.Time, period time.Duration, stalePeriods int) float64 {
	return float64(now.Sub(f.since))/float64(period) - float64(stalePeriods)
}

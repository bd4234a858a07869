// SPDX-License-Identifier: Apache-2.0

package nodeagent

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestClockAlignsToWallTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		period := time.Duration(rapid.Int64Range(int64(100*time.Millisecond), int64(time.Minute)).Draw(t, "period"))
		c := newClock(period, rapid.String().Draw(t, "node"))
		if c.jitter < 0 || c.jitter >= period/5 {
			t.Fatalf("jitter %s of a period of %s", c.jitter, period)
		}
		now := time.Unix(0, rapid.Int64Range(0, 1<<62).Draw(t, "now"))
		wait := c.wait(now)
		if wait <= 0 || wait > period {
			t.Fatalf("wait of %s in a period of %s", wait, period)
		}
		tick := now.Add(wait)
		if got := tick.UnixNano() % int64(period); got != int64(c.jitter) {
			t.Fatalf("ticks %s after the period's end, jitter is %s", time.Duration(got), c.jitter)
		}
		if c.index(tick) != c.index(now)+1 && c.index(tick) != c.index(now) {
			t.Fatalf("period %d ticks in %d", c.index(now), c.index(tick))
		}
	})
}

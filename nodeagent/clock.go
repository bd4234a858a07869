// SPDX-License-Identifier: Apache-2.0

package nodeagent

import (
	"hash/fnv"
	"time"
)

// jitterShare is the part of a period over which the agents spread their pushes.
const jitterShare = 0.1

// clock divides wall time into periods that are the same on every node.
type clock struct {
	period time.Duration
	jitter time.Duration // in [0, jitterShare × period), the same each time on one node
}

func newClock(period time.Duration, node string) clock {
	h := fnv.New64a()
	h.Write([]byte(node))
	part := float64(h.Sum64()%1000) / 1000
	return clock{period: period, jitter: time.Duration(part * jitterShare * float64(period))}
}

// index returns the number of periods that have ended at t.
func (c clock) index(t time.Time) int64 { return t.UnixNano() / int64(c.period) }

// wait returns how long it is from now to the next tick, which is jitter after
// the end of a period: more than 0 and at most one period, whatever steps the
// wall clock makes.
func (c clock) wait(now time.Time) time.Duration {
	into := time.Duration((now.UnixNano()%int64(c.period) + int64(c.period-c.jitter)) % int64(c.period))
	return c.period - into
}

// SPDX-License-Identifier: Apache-2.0

// Package measure turns what the lab saw into figures: the share of traffic that
// each pod got, percentiles, the utilisation of pods, and idle CPU time. All but
// the two readers of files are pure functions.
package measure

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/edgeweir/weir/test/lab/load"
)

// Flow is the traffic of a service at a node.
type Flow struct{ Service, Node string }

// Shares holds, by flow and pod, the share of the flow's connections that the pod
// has; the shares of a flow sum to 1.
type Shares map[Flow]map[string]float64

// ReadRecords reads the log of a load run.
func ReadRecords(r io.Reader) ([]load.Record, error) {
	var records []load.Record
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		var record load.Record
		if err := json.Unmarshal(lines.Bytes(), &record); err != nil {
			return nil, fmt.Errorf("connection log: line %d: %w", n, err)
		}
		records = append(records, record)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("connection log: %w", err)
	}
	return records, nil
}

// Between returns the records whose intended start is in [from, to).
func Between(records []load.Record, from, to time.Time) []load.Record {
	var kept []load.Record
	for _, r := range records {
		if !r.Start.Before(from) && r.Start.Before(to) {
			kept = append(kept, r)
		}
	}
	return kept
}

// Count counts by flow and pod the connections that a pod answered.
func Count(records []load.Record) map[Flow]map[string]int {
	counts := map[Flow]map[string]int{}
	for _, r := range records {
		if r.Pod == "" {
			continue
		}
		flow := Flow{r.Service, r.Node}
		if counts[flow] == nil {
			counts[flow] = map[string]int{}
		}
		counts[flow][r.Pod]++
	}
	return counts
}

// SharesOf divides counts by the totals of their flows. A flow without
// connections has no shares.
func SharesOf(counts map[Flow]map[string]int) Shares {
	shares := Shares{}
	for flow, pods := range counts {
		total := 0
		for _, n := range pods {
			total += n
		}
		if total == 0 {
			continue
		}
		shares[flow] = map[string]float64{}
		for pod, n := range pods {
			shares[flow][pod] = float64(n) / float64(total)
		}
	}
	return shares
}

// Deviation is where measured shares differ most from wanted ones.
type Deviation struct {
	Flow           Flow
	Pod            string
	Measured, Want float64
}

// Size is |measured − wanted|.
func (d Deviation) Size() float64 { return math.Abs(d.Measured - d.Want) }

// MaxDeviation returns the largest deviation over the flows that were measured;
// what a side lacks is a share of 0. Equal ones are settled by name, so that the
// answer is always the same.
func MaxDeviation(measured, want Shares) Deviation {
	var worst Deviation
	consider := func(d Deviation) {
		switch diff := d.Size() - worst.Size(); {
		case diff > 0, diff == 0 && fmt.Sprint(d) < fmt.Sprint(worst):
			worst = d
		}
	}
	for flow, pods := range measured {
		for pod, share := range pods {
			consider(Deviation{flow, pod, share, want[flow][pod]})
		}
		for pod, share := range want[flow] {
			consider(Deviation{flow, pod, pods[pod], share})
		}
	}
	return worst
}

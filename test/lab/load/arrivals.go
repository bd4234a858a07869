// SPDX-License-Identifier: Apache-2.0

package load

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"time"
)

// Arrival is one connection to be made.
type Arrival struct {
	At     time.Duration // after the start of the run
	Stream int           // index into Plan.Streams
}

// Arrivals returns all arrivals of the plan in time order. A stream's arrivals
// depend on the seed, its service, node, rate and the duration only: other
// streams may come and go.
func (p *Plan) Arrivals() ([]Arrival, error) {
	var all []Arrival
	for i, s := range p.Streams {
		if s.Rate == 0 {
			continue
		}
		h := fnv.New64a()
		fmt.Fprintf(h, "%s\x00%s", s.Service, s.Node)
		random := rand.New(rand.NewPCG(p.Seed, h.Sum64()))
		for at := 0.0; ; {
			at += random.ExpFloat64() / s.Rate
			if at >= time.Duration(p.Duration).Seconds() {
				break
			}
			if len(all) == p.MaxConnections {
				return nil, fmt.Errorf("load plan: more arrivals than maxConnections, %d", p.MaxConnections)
			}
			all = append(all, Arrival{At: time.Duration(at * float64(time.Second)), Stream: i})
		}
	}
	slices.SortStableFunc(all, func(a, b Arrival) int { return cmp.Compare(a.At, b.At) })
	return all, nil
}

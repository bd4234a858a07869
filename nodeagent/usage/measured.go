// SPDX-License-Identifier: Apache-2.0

package usage

// measured is what one source tells at one moment, by resource.
type measured struct {
	totals   map[string]float64 // what only grows: resource-seconds, bytes
	stocks   map[string]float64 // what is held now
	capacity map[string]float64
}

func newMeasured() measured {
	return measured{
		totals:   map[string]float64{},
		stocks:   map[string]float64{},
		capacity: map[string]float64{},
	}
}

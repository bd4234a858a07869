// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"math"
	"slices"

	"github.com/edgeweir/weir/test/lab/load"
)

// Percentile returns the smallest value that at least p percent of the values do
// not exceed (nearest rank, p in 0..100); NaN of none. It leaves values as they are.
func Percentile(values []float64, p float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	rank := int(math.Ceil(p / 100 * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// Latencies returns the total latencies in milliseconds, of failed connections too.
func Latencies(records []load.Record) []float64 {
	values := make([]float64, len(records))
	for i, r := range records {
		values[i] = r.TotalMillis
	}
	return values
}

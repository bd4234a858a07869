// SPDX-License-Identifier: Apache-2.0

package ipvs

import "math"

// bestTotal rounds shares (sum 1) to integers whose sum is within window of
// near, choosing the sum by error and length of cycle, and divides them by
// their gcd.
func bestTotal(share []float64, near, expected float64) []uint32 {
	least := max(int(math.Ceil(near*(1-window))), len(share))
	most := max(min(int(near*(1+window)), MaxWeight), least)
	var best []uint32
	score := math.Inf(1)
	for total := least; total <= most; total++ {
		weights := largestRemainder(share, total)
		g := gcd(weights)
		s := worst(weights, share, total) + cycleCost*float64(total)/float64(g)/max(expected, 1) +
			1e-9*math.Abs(float64(total)-near) // ties: the nearest
		if s < score {
			score, best = s, weights
			for i := range best {
				best[i] /= g
			}
		}
	}
	return best
}

// worst returns the largest |weight/total − share|.
func worst(weights []uint32, share []float64, total int) (e float64) {
	for i, w := range weights {
		e = max(e, math.Abs(float64(w)/float64(total)-share[i]))
	}
	return e
}

// largestRemainder rounds shares (sum 1) to integers ≥ 1 that add up to total,
// which is at least their number. Ties go to the first.
func largestRemainder(share []float64, total int) []uint32 {
	weights := make([]uint32, len(share))
	remainder := make([]float64, len(share))
	left := total
	for i, s := range share {
		exact := s * float64(total)
		weights[i] = max(1, uint32(exact))
		remainder[i] = exact - float64(weights[i])
		left -= int(weights[i])
	}
	for ; left > 0; left-- {
		i := extreme(remainder, func(j, best int) bool { return remainder[j] > remainder[best] })
		weights[i]++
		remainder[i]--
	}
	for ; left < 0; left++ {
		i := extreme(remainder, func(j, best int) bool {
			return weights[j] > 1 && (weights[best] <= 1 || remainder[j] < remainder[best])
		})
		weights[i]--
		remainder[i]++
	}
	return weights
}

func extreme(values []float64, better func(j, best int) bool) (best int) {
	for j := range values {
		if better(j, best) {
			best = j
		}
	}
	return best
}

func gcd(weights []uint32) uint32 {
	var g uint32
	for _, w := range weights {
		for w > 0 {
			g, w = w, g%w
		}
	}
	return max(g, 1)
}

func ones(n int) []uint32 {
	weights := make([]uint32, n)
	for i := range weights {
		weights[i] = 1
	}
	return weights
}

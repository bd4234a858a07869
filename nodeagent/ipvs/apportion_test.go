// SPDX-License-Identifier: Apache-2.0

package ipvs

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func endpoint(i int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)}), 8080)
}

func sharesOf(values ...float64) Shares {
	s := Shares{}
	for i, v := range values {
		s[endpoint(i)] = v
	}
	return s
}

func genShares(t *rapid.T) Shares {
	s := Shares{}
	for i := range rapid.IntRange(1, 40).Draw(t, "pods") {
		s[endpoint(i)] = rapid.OneOf(rapid.Just(0.0), rapid.Float64Range(1e-6, 1)).Draw(t, "share")
	}
	return s
}

// Whatever the shares and the past: every endpoint has a weight, none above the
// limit, zero exactly where the share is, and never zeros alone.
func TestApportionKeepsItsPromises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var c Carry
		scheduler := rapid.SampledFrom([]string{"rr", "lc", "wrr", "wlc", "sed", "mh"}).Draw(t, "scheduler")
		for range rapid.IntRange(1, 8).Draw(t, "periods") {
			shares := genShares(t)
			var weights map[netip.AddrPort]uint32
			d := Demand{Expected: rapid.Float64Range(0, 5000).Draw(t, "expected"), Arrived: rapid.Float64Range(0, 5000).Draw(t, "arrived")}
			weights, c = Apportion(scheduler, shares, d, c)
			anyShare, sum, anyWeight := false, 0.0, false
			for e, v := range shares {
				w, found := weights[e]
				if !found || w > MaxWeight {
					t.Fatalf("weight of %s: %d, found %t", e, w, found)
				}
				anyShare = anyShare || v > 0
				anyWeight = anyWeight || w > 0
				sum += v
			}
			if !anyWeight || len(weights) != len(shares) {
				t.Fatalf("weights %v for %v", weights, shares)
			}
			for e, v := range shares {
				if anyShare && (weights[e] > 0) != (v > 0) {
					t.Fatalf("weight %d for share %g", weights[e], v)
				}
			}
		}
	})
}

func TestLargestRemainderKeepsTheTotal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		positive := normalise(genShares(t))
		m := len(positive.order)
		if m == 0 {
			return
		}
		total := rapid.IntRange(m, 5000).Draw(t, "total")
		var sum uint32
		raised := positive.raise(1 / float64(total))
		for i, w := range largestRemainder(raised.share, total) {
			sum += w
			if exact := raised.share[i] * float64(total); math.Abs(float64(w)-exact) > 1+1e-6 {
				t.Fatalf("%g rounded to %d", exact, w)
			}
		}
		if int(sum) != total {
			t.Fatalf("sum %d, want %d", sum, total)
		}
		near := rapid.Float64Range(float64(max(10, 2*m)), float64(max(100, 2*m))).Draw(t, "near")
		sum = 0
		for _, w := range bestTotal(raised.share, near, near) {
			sum += w
		}
		if float64(sum) > near*(1+window) {
			t.Fatalf("total %d for %g arrivals", sum, near)
		}
	})
}

// The order in which endpoints are listed, or their scale, changes nothing.
func TestApportionIgnoresScale(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shares := genShares(t)
		double := Shares{}
		for e, v := range shares {
			double[e] = 2 * v
		}
		d := Demand{Expected: 50}
		a, _ := Apportion("wrr", shares, d, Carry{})
		b, _ := Apportion("wrr", double, d, Carry{})
		if !maps.Equal(a, b) {
			t.Fatalf("%v, with doubled shares %v", a, b)
		}
	})
}

// By the weights alone, without a scheduler: over n periods of steady demand the
// mean of given shares approaches the wanted ones as 1/n, shares below the
// least that a weight can say apart.
func TestApportionIsExactInTheLongRun(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shares := Shares{}
		for i := range rapid.IntRange(2, 8).Draw(t, "pods") {
			shares[endpoint(i)] = rapid.Float64Range(0.2, 1).Draw(t, "share")
		}
		d := Demand{Expected: rapid.Float64Range(20, 500).Draw(t, "arrivals")}
		want := normalise(shares).raise(1 / math.Floor(min(d.Expected, 100)*(1+window)))
		const periods = 200
		given := map[netip.AddrPort]float64{}
		var c Carry
		var weights map[netip.AddrPort]uint32
		for range periods {
			weights, c = Apportion("wrr", shares, d, c)
			d.Arrived = d.Expected
			sum := 0.0
			for _, w := range weights {
				sum += float64(w)
			}
			for e, w := range weights {
				given[e] += float64(w) / sum
			}
		}
		for i, e := range want.order {
			if off := math.Abs(given[e]/periods - want.share[i]); off > 0.004 {
				t.Fatalf("%s: mean share %.4f, wanted %.4f", e, given[e]/periods, want.share[i])
			}
		}
	})
}

func TestApportionKeepsWhatRepresents(t *testing.T) {
	d := Demand{Expected: 30, Arrived: 30}
	first, c := Apportion("wrr", sharesOf(8, 4, 4, 2), d, Carry{})
	if want := map[netip.AddrPort]uint32{endpoint(0): 4, endpoint(1): 2, endpoint(2): 2, endpoint(3): 1}; !maps.Equal(first, want) {
		t.Fatalf("weights %v, want %v", first, want)
	}
	wobbled, c := Apportion("wrr", sharesOf(8.1, 3.9, 4.1, 2), d, c)
	if !maps.Equal(first, wobbled) {
		t.Errorf("weights rewritten for a wobble: %v", wobbled)
	}
	moved, c := Apportion("wrr", sharesOf(4, 8, 4, 2), d, c)
	if maps.Equal(first, moved) {
		t.Errorf("weights kept for a change: %v", moved)
	}
	none, _ := Apportion("wrr", sharesOf(0, 0, 0, 0), d, c)
	if !maps.Equal(none, moved) {
		t.Errorf("no share is positive: %v, want the last good %v", none, moved)
	}
}

func TestApportionAfterARestart(t *testing.T) {
	shares := sharesOf(8, 4, 4, 2)
	running := Service{}
	for i, w := range []uint32{4, 2, 2, 1} {
		e := endpoint(i)
		running.Destinations = append(running.Destinations, Destination{Address: e.Addr(), Port: e.Port(), Weight: w})
	}
	kept, _ := Apportion("wrr", sharesOf(8.1, 3.9, 4, 2), Demand{Expected: 30}, Resume(running))
	for _, d := range running.Destinations {
		if kept[d.Endpoint()] != d.Weight {
			t.Errorf("weight of %s rewritten from %d to %d", d.Endpoint(), d.Weight, kept[d.Endpoint()])
		}
	}
	fine, c := Apportion("sed", shares, Demand{Expected: 30}, Carry{})
	if fine[endpoint(0)] != 445 {
		t.Errorf("weights %v for sed, want them fine", fine)
	}
	coarse, _ := Apportion("wrr", shares, Demand{Expected: 30}, c)
	if coarse[endpoint(0)] != 4 {
		t.Errorf("weights %v for wrr after sed, want a short cycle", coarse)
	}
}

// result of running the kernel's wrr under Apportion.
type result struct {
	longRun   float64 // largest |share − wanted| over the whole run
	perPeriod float64 // mean over the periods of the same
	writes    int
}

// simulate runs periods of Poisson arrivals with mean arrivals against shares
// that wobble by ±noise in each period.
func simulate(base []float64, arrivals, noise float64, periods int, seed uint64) result {
	rnd := rand.New(rand.NewPCG(seed, 1))
	k := &wrr{weights: make([]uint32, len(base)), at: -1}
	var c Carry
	var res result
	d := Demand{Expected: arrivals}
	got, wanted, all := make([]float64, len(base)), make([]float64, len(base)), 0.0
	for range periods {
		values := make([]float64, len(base))
		for i, b := range base {
			values[i] = b * (1 + noise*(2*rnd.Float64()-1))
		}
		shares := scale(values)
		var weights map[netip.AddrPort]uint32
		weights, c = Apportion("wrr", sharesOf(shares...), d, c)
		for i := range base {
			if w := weights[endpoint(i)]; w != k.weights[i] {
				k.write(i, w)
				res.writes++
			}
		}
		period, n := make([]float64, len(base)), 0.0
		for t := rnd.ExpFloat64(); t < arrivals; t += rnd.ExpFloat64() {
			i := k.next()
			period[i]++
			n++
		}
		off := 0.0
		for i := range base {
			got[i] += period[i]
			wanted[i] += shares[i] * n
			off = max(off, math.Abs(period[i]/max(n, 1)-shares[i]))
		}
		all += n
		res.perPeriod += off / float64(periods)
		d = Demand{Expected: max((d.Expected+n)/2, 1), Arrived: n}
	}
	for i := range base {
		res.longRun = max(res.longRun, math.Abs(got[i]-wanted[i])/all)
	}
	return res
}

func TestWeightsUnderTheKernelsRoundRobin(t *testing.T) {
	odd := []float64{0.37, 0.29, 0.21, 0.13}
	for _, tt := range []struct {
		shares          []float64
		arrivals, noise float64
		longRun         float64 // limit
		perPeriod       float64 // limit
	}{
		{[]float64{8, 4, 4, 2}, 20, 0, 0.002, 0.05},
		{[]float64{8, 4, 4, 2}, 30, 0, 0.002, 0.04},
		{[]float64{8, 4, 4, 2}, 100, 0, 0.002, 0.02},
		{[]float64{8, 4, 4, 2}, 20, 0.03, 0.01, 0.05},
		{[]float64{8, 4, 4, 2}, 30, 0.03, 0.01, 0.04},
		{[]float64{8, 4, 4, 2}, 100, 0.03, 0.01, 0.03},
		{odd, 20, 0, 0.01, 0.08},
		{odd, 30, 0, 0.01, 0.06},
		{odd, 100, 0, 0.01, 0.03},
		{odd, 20, 0.03, 0.01, 0.08},
		{odd, 30, 0.03, 0.01, 0.06},
		{odd, 100, 0.03, 0.01, 0.03},
	} {
		t.Run(fmt.Sprintf("%v/%g/%g", tt.shares, tt.arrivals, tt.noise), func(t *testing.T) {
			var worstOf result
			for seed := range uint64(10) {
				r := simulate(tt.shares, tt.arrivals, tt.noise, 100, seed)
				worstOf.longRun = max(worstOf.longRun, r.longRun)
				worstOf.perPeriod = max(worstOf.perPeriod, r.perPeriod)
				worstOf.writes = max(worstOf.writes, r.writes)
			}
			t.Logf("worst of 10 runs of 100 periods: long run %.4f, per period %.4f, %d writes",
				worstOf.longRun, worstOf.perPeriod, worstOf.writes)
			if worstOf.longRun > tt.longRun || worstOf.perPeriod > tt.perPeriod {
				t.Errorf("limits are %.4f and %.4f", tt.longRun, tt.perPeriod)
			}
		})
	}
}

// The reason for keeping weights: writing on each arrival, even the same
// weight, turns 1000:900 into all on one pod.
func TestRoundRobinStartsAgainOnEveryWrite(t *testing.T) {
	k := &wrr{weights: []uint32{0, 0}, at: -1}
	k.write(0, 1000)
	k.write(1, 900)
	got := []int{0, 0}
	for range 1900 {
		got[k.next()]++
		k.write(0, 1000)
	}
	if slices.Max(got) != 1900 {
		t.Errorf("connections %v, expected all on one", got)
	}
}

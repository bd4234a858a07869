// SPDX-License-Identifier: Apache-2.0

package ipvs

import (
	"maps"
	"math"
	"net/netip"
	"slices"
)

// Shares are wanted ratios by endpoint, ≥ 0; they need not add up to 1. An
// endpoint with share 0 is to take no new connections.
type Shares map[netip.AddrPort]float64

// Demand is what a service's weights are measured against, in connections
// balanced by this node.
type Demand struct {
	Expected float64 // per coming period
	Arrived  float64 // since the last call, under the weights that it returned
}

// Carry is what Apportion remembers of one service from period to period; the
// zero value remembers nothing.
type Carry struct {
	shares  Shares                    // wanted in the period that has ended, as representable
	weights map[netip.AddrPort]uint32 // in force
	owed    map[netip.AddrPort]float64
}

// Resume returns a carry with the weights that the kernel has, so that an agent
// which starts keeps them where they represent what is wanted.
func Resume(s Service) Carry {
	c := Carry{weights: make(map[netip.AddrPort]uint32, len(s.Destinations))}
	for _, d := range s.Destinations {
		c.weights[d.Endpoint()] = d.Weight
	}
	return c
}

// The constants of Apportion, chosen by simulating the kernel's wrr over four
// and twenty pods, 3 to 1,000 arrivals a period, steady and wobbling shares.
const (
	slack       = 1.5  // weight units that weights in force may be off
	idleSlack   = 0.5  // the same where nothing arrives, so that a write disturbs nothing
	gain        = 0.25 // share of what is owed that the next period pays back
	cycleCost   = 0.01 // error that a cycle as long as the period is worth
	window      = 0.25 // how far the total may be from the expected arrivals
	owedLimit   = 8    // weight units of debt that are remembered
	fineWeights = 1000 // total for schedulers that don't mind large weights
	fineSlack   = 0.05 // of the mean share: how far their weights may be off
)

// Apportion turns shares into weights for the scheduler.
//
// For wrr the total is near the arrivals expected in a period, since its cycle
// is as long as the total and starts with the heaviest pods. Within ±25% it is
// the one with the least rounding error plus cycleCost × cycle length per
// expected arrivals; then the weights are divided by their gcd.
//
// Every write of a destination makes wrr start its pass again, so weights in
// force stay while they are within slack units of what is wanted, debts
// included. A debt is what a pod should have got so far and by its weight did
// not: arrivals × (share − weight/total), summed over the periods. It bounds
// the error of any number of periods, so the long-run share is exact although
// weights are small integers.
//
// An endpoint with a positive share never gets 0, so shares below one unit are
// raised to it. When no share is positive, the weights in force are kept.
func Apportion(scheduler string, shares Shares, d Demand, c Carry) (map[netip.AddrPort]uint32, Carry) {
	positive := normalise(shares)
	if len(positive.order) == 0 {
		return keepGood(shares, c)
	}
	switch scheduler {
	case "rr", "lc":
		return c.settle(shares, positive, func() []uint32 { return ones(len(positive.order)) }, true)
	case "wrr":
		return apportionRoundRobin(shares, positive, d, c)
	}
	m := float64(len(positive.order))
	total := min(max(fineWeights, 20*m), MaxWeight)
	want := positive.raise(1 / total)
	rewrite := !c.represents(want, slack/fineSlack*m, 0, slack)
	return c.settle(shares, want, func() []uint32 { return largestRemainder(want.share, int(total)) }, rewrite)
}

func apportionRoundRobin(shares Shares, positive split, d Demand, c Carry) (map[netip.AddrPort]uint32, Carry) {
	m := float64(len(positive.order))
	total := min(max(d.Expected, 10, 2*m), max(100, 2*m), MaxWeight)
	unit := max(1, d.Expected/total) // arrivals that one unit of weight decides
	want := positive.raise(1 / math.Floor(total*(1+window)))
	c.owed = c.charge(d.Arrived, owedLimit*unit)
	tooLong := c.sum() > 2*total*(1+window) // a cycle from busier times or another scheduler
	allowed := slack
	if d.Arrived == 0 {
		allowed = idleSlack
	}
	rewrite := tooLong || !c.represents(want, total, gain/unit, allowed)
	return c.settle(shares, want, func() []uint32 {
		target := make([]float64, len(want.order))
		for i, e := range want.order {
			target[i] = max(want.share[i]*total+gain/unit*c.owed[e], want.share[i]/100)
		}
		return bestTotal(scale(target), total, d.Expected)
	}, rewrite)
}

// split is a distribution over endpoints in address order.
type split struct {
	order []netip.AddrPort
	share []float64 // > 0, sum 1
}

func normalise(shares Shares) split {
	var s split
	for _, e := range slices.SortedFunc(maps.Keys(shares), netip.AddrPort.Compare) {
		if v := shares[e]; v > 0 && !math.IsInf(v, 1) {
			s.order = append(s.order, e)
			s.share = append(s.share, v)
		}
	}
	s.share = scale(s.share)
	return s
}

func scale(values []float64) []float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	scaled := make([]float64, len(values))
	for i, v := range values {
		scaled[i] = v / sum
	}
	return scaled
}

// raise lifts shares below least to it, at the cost of the others in proportion.
func (s split) raise(least float64) split {
	raised := split{s.order, slices.Clone(s.share)}
	low := make([]bool, len(s.share))
	for again := true; again; {
		again = false
		room, rest := 1.0, 0.0
		for i, v := range s.share {
			if low[i] {
				room -= least
			} else {
				rest += v
			}
		}
		for i, v := range s.share {
			switch {
			case low[i]:
				raised.share[i] = least
			case v*room/rest < least:
				low[i], again = true, true
			default:
				raised.share[i] = v * room / rest
			}
		}
	}
	return raised
}

// charge adds what the ended period left owing, in arrivals.
func (c Carry) charge(arrived, limit float64) map[netip.AddrPort]float64 {
	sum := c.sum()
	owed := make(map[netip.AddrPort]float64, len(c.shares))
	for e, share := range c.shares {
		if sum > 0 {
			owed[e] = c.owed[e] + arrived*(share-float64(c.weights[e])/sum)
			owed[e] = min(max(owed[e], -limit), limit)
		}
	}
	return owed
}

func (c Carry) sum() (sum float64) {
	for _, w := range c.weights {
		sum += float64(w)
	}
	return sum
}

// represents says whether the weights in force are within allowed units, out of
// total, of what is wanted.
func (c Carry) represents(want split, total, owedUnits, allowed float64) bool {
	positive := 0
	for _, w := range c.weights {
		if w > 0 {
			positive++
		}
	}
	if positive != len(want.order) {
		return false
	}
	sum := c.sum()
	for i, e := range want.order {
		w := float64(c.weights[e])
		if w == 0 || math.Abs(owedUnits*c.owed[e]+total*(want.share[i]-w/sum)) > allowed {
			return false
		}
	}
	return true
}

// settle ends a call: weights for every endpoint of shares, 0 where want has
// none, and the carry for the next call.
func (c Carry) settle(shares Shares, want split, fresh func() []uint32, rewrite bool) (map[netip.AddrPort]uint32, Carry) {
	next := Carry{shares: make(Shares, len(shares)), weights: make(map[netip.AddrPort]uint32, len(shares)), owed: c.owed}
	for e := range shares {
		next.weights[e] = 0
	}
	var weights []uint32
	if rewrite {
		weights = fresh()
	}
	for i, e := range want.order {
		next.shares[e] = want.share[i]
		if rewrite {
			next.weights[e] = weights[i]
		} else {
			next.weights[e] = c.weights[e]
		}
	}
	return maps.Clone(next.weights), next
}

// keepGood answers for shares that name no endpoint to send to: the weights in
// force where one of them is left, else all alike. Never all zeros.
func keepGood(shares Shares, c Carry) (map[netip.AddrPort]uint32, Carry) {
	weights := make(map[netip.AddrPort]uint32, len(shares))
	good := false
	for e := range shares {
		weights[e] = c.weights[e]
		good = good || weights[e] > 0
	}
	if !good {
		for e := range shares {
			weights[e] = 1
		}
	}
	return maps.Clone(weights), Carry{weights: weights}
}

// SPDX-License-Identifier: Apache-2.0

package ipvs

// wrr behaves as the kernel's weighted round robin, net/netfilter/ipvs/ip_vs_wrr.c:
// in passes over the list, each at a level that sinks from maximum by step, a
// destination whose weight reaches the level gets one connection.
type wrr struct {
	weights              []uint32
	at                   int // last destination; -1 is the head of the list
	level, maximum, step int
}

// write sets one weight. Whatever it is, the pass starts again from the head;
// the level stays, unless it is above the new maximum.
func (w *wrr) write(i int, weight uint32) {
	w.weights[i] = weight
	w.at = -1
	w.step = int(gcd(w.weights))
	highest := 0
	for _, v := range w.weights {
		highest = max(highest, int(v))
	}
	w.maximum = highest - (w.step - 1)
	switch {
	case w.level > w.maximum || w.level == 0:
		w.level = w.maximum
	case w.step > 1:
		w.level = w.level/w.step*w.step + 1
	}
}

// next returns the destination of the next connection; -1 when none has weight.
func (w *wrr) next() int {
	if w.maximum <= 0 {
		return -1
	}
	for {
		for w.at++; w.at < len(w.weights); w.at++ {
			if int(w.weights[w.at]) >= w.level {
				return w.at
			}
		}
		w.at = -1
		if w.level -= w.step; w.level <= 0 {
			w.level = w.maximum
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package ipvs

import (
	"container/heap"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestChoose(t *testing.T) {
	nan := math.NaN()
	for _, tt := range []struct {
		name     string
		asked    string
		protocol Protocol
		samples  []float64
		want     string
	}{
		{"nothing known", Auto, TCP, []float64{nan}, "wrr"},
		{"little in flight", Auto, TCP, []float64{0.2}, "wrr"},
		{"much in flight", Auto, TCP, []float64{2}, "sed"},
		{"one peak is not enough", Auto, TCP, []float64{0.1, 2}, "wrr"},
		{"stays inside the band", Auto, TCP, []float64{1.1, 0.9, 0.9}, "sed"},
		{"does not enter inside the band", Auto, TCP, []float64{0.2, 0.9, 0.9, 0.9, 0.9}, "wrr"},
		{"leaves below the band", Auto, TCP, []float64{1.1, 0.2, 0.2}, "wrr"},
		{"keeps through a gap", Auto, TCP, []float64{2, nan}, "sed"},
		{"flows do not end", Auto, UDP, []float64{50}, "wrr"},
		{"named", "wlc", TCP, []float64{0.1}, "wlc"},
		{"named for flows", "mh", UDP, []float64{nan}, "mh"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var c Choice
			for _, s := range tt.samples {
				c = Choose(tt.asked, tt.protocol, s, c)
			}
			if c.Scheduler != tt.want {
				t.Errorf("%s at %.2f in flight, want %s", c.Scheduler, c.InFlight, tt.want)
			}
		})
	}
}

func TestInFlightCountsPodsThatServe(t *testing.T) {
	s := Service{Destinations: []Destination{{Weight: 3, ActiveConns: 4}, {Weight: 1, ActiveConns: 2}, {ActiveConns: 90}}}
	if got := InFlight(s); got != 3 {
		t.Errorf("in flight per pod %g, want 3", got)
	}
	if got := InFlight(Service{}); !math.IsNaN(got) {
		t.Errorf("in flight without pods %g, want NaN", got)
	}
}

// queues simulates pods with bounded workers, exponential service of mean 10 ms
// and first come first served, behind nodes that each see their own connections.
type queues struct {
	workers []uint32
	active  [][]uint32 // by node and pod
	robins  []*wrr
	choices []Choice
	asked   string
	rnd     *rand.Rand

	busy    []uint32
	waiting [][]arrival
	ends    ends
	millis  []float64
}

type arrival struct {
	at   float64
	node int
	pod  int
}

type ends []arrival

func (e ends) Len() int           { return len(e) }
func (e ends) Less(i, j int) bool { return e[i].at < e[j].at }
func (e ends) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *ends) Push(x any)        { *e = append(*e, x.(arrival)) }
func (e *ends) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

func newQueues(nodes int, asked string) *queues {
	q := &queues{workers: []uint32{4, 6, 8, 8, 10, 12, 14, 16}, asked: asked, rnd: rand.New(rand.NewPCG(7, 7))}
	q.busy, q.waiting = make([]uint32, 8), make([][]arrival, 8)
	q.choices = make([]Choice, nodes)
	for range nodes {
		k := &wrr{weights: make([]uint32, 8), at: -1}
		for i, w := range q.workers {
			k.write(i, w)
		}
		k.level, k.at = 1+q.rnd.IntN(16), q.rnd.IntN(8)-1
		q.robins = append(q.robins, k)
		q.active = append(q.active, make([]uint32, 8))
	}
	return q
}

func (q *queues) begin(a arrival, now float64) {
	end := now + q.rnd.ExpFloat64()*10
	q.millis = append(q.millis, end-a.at)
	heap.Push(&q.ends, arrival{at: end, node: a.node, pod: a.pod})
}

func (q *queues) finish(e arrival) {
	q.active[e.node][e.pod]--
	if w := q.waiting[e.pod]; len(w) > 0 {
		q.waiting[e.pod] = w[1:]
		q.begin(w[0], e.at)
		return
	}
	q.busy[e.pod]--
}

func (q *queues) pick(node int) int {
	if q.choices[node].Scheduler != "sed" {
		return q.robins[node].next()
	}
	best := 0
	for i, w := range q.workers { // ip_vs_sed.c
		if (q.active[node][i]+1)*q.workers[best] < (q.active[node][best]+1)*w {
			best = i
		}
	}
	return best
}

// p99 runs n connections at load, spread evenly over the nodes, and returns the
// 99th percentile of their time in milliseconds.
func (q *queues) p99(load float64, n int) float64 {
	rate, now := load*78/10, 0.0
	for i := range n {
		if i%2000 == 0 { // a period
			for node := range q.choices {
				s := Service{}
				for _, a := range q.active[node] {
					s.Destinations = append(s.Destinations, Destination{Weight: 1, ActiveConns: a})
				}
				q.choices[node] = Choose(q.asked, TCP, InFlight(s), q.choices[node])
			}
		}
		now += q.rnd.ExpFloat64() / rate
		for len(q.ends) > 0 && q.ends[0].at <= now {
			q.finish(heap.Pop(&q.ends).(arrival))
		}
		a := arrival{at: now, node: q.rnd.IntN(len(q.robins))}
		a.pod = q.pick(a.node)
		q.active[a.node][a.pod]++
		if q.busy[a.pod] < q.workers[a.pod] {
			q.busy[a.pod]++
			q.begin(a, now)
		} else {
			q.waiting[a.pod] = append(q.waiting[a.pod], a)
		}
	}
	slices.Sort(q.millis)
	return q.millis[len(q.millis)*99/100]
}

func TestAutoIsNearTheBetterScheduler(t *testing.T) {
	for _, nodes := range []int{3, 10, 100} {
		for _, load := range []float64{0.7, 0.95} {
			t.Run(fmt.Sprintf("%d/%g", nodes, load), func(t *testing.T) {
				const n = 100_000
				wrr := newQueues(nodes, "wrr").p99(load, n)
				sed := newQueues(nodes, "sed").p99(load, n)
				auto := newQueues(nodes, Auto).p99(load, n)
				t.Logf("p99 in ms: wrr %.0f, sed %.0f, auto %.0f", wrr, sed, auto)
				if auto > 1.15*min(wrr, sed) {
					t.Errorf("auto is far from the better of the two")
				}
			})
		}
	}
}

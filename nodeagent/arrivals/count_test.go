// SPDX-License-Identifier: Apache-2.0

package arrivals

import (
	"context"
	"net/netip"
	"sync"
	"testing"
	"time"
)

var (
	web4 = rowName{"web4", "edge-2"}
	web6 = rowName{"web6", "edge-2"}
)

// Every way of counting gives what the clients did; a listener stands where IPVS
// would. What a way can't see is left out of what is wanted.
func TestCountsEqualTheClientsLog(t *testing.T) {
	for _, way := range []Attachment{Netfilter, TCX, Clsact} {
		t.Run(string(way), func(t *testing.T) {
			node, client := newWire(t)
			node.serve("[::]:80")
			node.serve("[::]:81")
			c := node.open(Options{Dir: bpffs(t), Attach: string(way)})
			if c.Attachment() != way {
				t.Fatalf("attached by %s", c.Attachment())
			}
			track(t, c)

			want := map[rowName]uint64{}
			want[web4] += client.connect(100, vip4+":80")
			want[web6] += client.connect(100, "["+vip6+"]:80")
			client.connect(10, vip4+":81") // not a service
			client.connect(10, node4+":80")
			wantRows(t, c, want)

			want[web4] += client.send(50, 3, 100, vip4+":80")
			want[web6] += client.send(50, 3, 100, "["+vip6+"]:80")
			client.send(10, 1, 100, vip4+":81")
			wantRows(t, c, want)

			want[web4] += client.send(20, 2, 4000, vip4+":80") // in three fragments
			want[web6] += client.send(20, 2, 4000, "["+vip6+"]:80")
			wantRows(t, c, want)

			self4, self6 := node.connect(30, vip4+":80"), node.connect(30, "["+vip6+"]:80")
			self4 += node.send(10, 2, 3000, vip4+":80")
			self6 += node.send(10, 2, 3000, "["+vip6+"]:80")
			if self4 != 40 || self6 != 40 {
				t.Fatalf("local clients made %d and %d", self4, self6)
			}
			if way.SeesLocal() {
				want[rowName{"web4", OriginSelf}], want[rowName{"web6", OriginSelf}] = self4, self6
			}
			wantRows(t, c, want)
		})
	}
}

func TestCraftedPackets(t *testing.T) {
	for _, way := range []Attachment{Netfilter, TCX, Clsact} {
		t.Run(string(way), func(t *testing.T) {
			node, client := newWire(t)
			c := node.open(Options{Dir: bpffs(t), Attach: string(way)})
			track(t, c)
			from4, from6 := netip.MustParseAddrPort(client4+":5000"), netip.MustParseAddrPort("["+client6+"]:5000")
			sctp4 := packet{from: from4, to: service4, protocol: 132, chunk: chunkInit, token: 5}
			sctp6 := packet{from: from6, to: service6, protocol: 132, chunk: chunkInit, token: 5}
			syn4 := packet{from: from4, to: service4, protocol: 6, flags: flagSYN, token: 5}
			syn6 := packet{from: from6, to: service6, protocol: 6, flags: flagSYN, token: 5}
			behind := syn6
			behind.token, behind.extensions = 6, []uint8{0, 60}
			options := syn4
			options.token, options.options = 6, 8
			client.inject(sctp4, sctp4, sctp6, sctp6, syn4, syn4, syn4, syn6, syn6, behind, options)
			wantRows(t, c, map[rowName]uint64{web4: 3, web6: 3})

			odd := syn4
			odd.flags |= flagFIN
			client.inject(odd)
			deadline := time.Now().Add(2 * time.Second)
			for stats := (Stats{}); stats.Malformed != 1 || stats.Repeated != 5; {
				var err error
				if stats, err = c.Stats(context.Background()); err != nil {
					t.Fatal(err)
				}
				if time.Now().After(deadline) {
					t.Fatalf("stats %+v, want 5 repeated, 1 malformed", stats)
				}
			}
		})
	}
}

// Connections whose SYN-ACKs are lost for a while: their SYNs come again, by the
// client's own TCP, and count once.
func TestRetransmittedSYNsCountOnce(t *testing.T) {
	node, client := newWire(t)
	node.serve("[::]:80")
	c := node.open(Options{Dir: bpffs(t)})
	track(t, c)
	node.nft(`table inet lossy { chain out { type filter hook output priority 0; tcp flags & (syn|ack) == syn|ack drop; }; }`)
	var wait sync.WaitGroup
	var mu sync.Mutex
	want := map[rowName]uint64{}
	for i := range 20 {
		wait.Go(func() {
			address, row := vip4+":80", web4
			if i%2 == 1 {
				address, row = "["+vip6+"]:80", web6
			}
			made := client.connect(1, address)
			mu.Lock()
			defer mu.Unlock()
			want[row] += made
		})
	}
	time.Sleep(1500 * time.Millisecond)
	node.nft(`delete table inet lossy`)
	wait.Wait()
	if want[web4]+want[web6] != 20 {
		t.Fatalf("only %v connected", want)
	}
	wantRows(t, c, want)
	stats, err := c.Stats(context.Background())
	if err != nil || stats.Repeated < 20 {
		t.Errorf("stats %+v, %v: want at least 20 repeated, or the test tested nothing", stats, err)
	}
}

// Many goroutines on all CPUs, node and client at once.
func TestCountsUnderConcurrency(t *testing.T) {
	node, client := newWire(t)
	node.serve("[::]:80")
	c := node.open(Options{Dir: bpffs(t)})
	track(t, c)
	var wait sync.WaitGroup
	var mu sync.Mutex
	want := map[rowName]uint64{}
	for range 4 {
		wait.Go(func() {
			made := client.connect(150, vip4+":80")
			mu.Lock()
			defer mu.Unlock()
			want[web4] += made
		})
		wait.Go(func() {
			made := node.connect(150, vip4+":80")
			mu.Lock()
			defer mu.Unlock()
			want[rowName{"web4", OriginSelf}] += made
		})
	}
	wait.Wait()
	wantRows(t, c, want)
}

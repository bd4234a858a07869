// SPDX-License-Identifier: Apache-2.0

package arrivals

import (
	"context"
	"net/netip"
	"testing"

	"github.com/edgeweir/weir/bpf"
)

// Where no row is left for an origin the service's count stays exact; where none
// is left for the service, the overflow row takes it. Either is told.
func TestFullArrivalsMap(t *testing.T) {
	node, client := newWire(t)
	node.serve("[::]:80")
	c := node.open(Options{Dir: bpffs(t), MaxArrivals: 4})
	track(t, c)                                               // overflow, and web4 and web6 from elsewhere
	setRow(t, c, bpf.ArrivalsArrivalKey{Service: 1 << 20}, 0) // the last room
	wantRows(t, c, map[rowName]uint64{{"web4", OriginOther}: client.connect(30, vip4+":80")})

	for key := range mustRows(t, c) { // web4 has no row at all
		if key.Service == serviceID(t, c, tcp(vip4, 80)) {
			if err := c.store.maps.Arrivals.Delete(key); err != nil {
				t.Fatal(err)
			}
		}
	}
	setRow(t, c, bpf.ArrivalsArrivalKey{Service: 1<<20 + 1}, 0)
	wantRows(t, c, map[rowName]uint64{{}: client.connect(20, vip4+":80")})
	stats, err := c.Stats(context.Background())
	if err != nil || stats.OriginsFull != 30 || stats.Overflowed != 20 || stats.Rows != 4 || stats.MaxRows != 4 {
		t.Errorf("stats %+v, %v: want 30 origins lost, 20 overflowed, 4 of 4 rows", stats, err)
	}
}

func mustRows(t *testing.T, c *Counter) map[bpf.ArrivalsArrivalKey]uint64 {
	t.Helper()
	rows, err := dumpRows(c.store.maps.Arrivals)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// A flood of SYNs from ever new sources, more than the flow memory holds: every
// one is counted.
func TestFloodIsCountedExactly(t *testing.T) {
	node, client := newWire(t)
	c := node.open(Options{Dir: bpffs(t), MaxFlows: 4096})
	track(t, c)
	const syns = 60000
	packets := make([]packet, syns)
	for i := range packets {
		from := netip.AddrPortFrom(netip.AddrFrom4([4]byte{198, 18, byte(i >> 8), byte(i)}), uint16(1024+i%60000))
		packets[i] = packet{from: from, to: service4, protocol: 6, flags: flagSYN, token: uint32(i)}
	}
	node.nft(`table inet flood { chain in { type filter hook input priority 98; tcp dport 80 drop; }; }`)
	client.inject(packets...)
	wantRows(t, c, map[rowName]uint64{{"web4", OriginOther}: syns})
}

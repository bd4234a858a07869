// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"

	"github.com/edgeweir/weir/nodeagent/ipvs"
)

func TestEveryClientIsAnswered(t *testing.T) {
	n := newTopology(t)
	server, client, outsider := n.pod(), n.pod(), n.outsider()
	n.bring(services("wrr", map[*place]uint32{server: 1}))
	for _, vip := range []netip.Addr{vip4, vip6} {
		for _, network := range []string{"tcp", "udp"} {
			for _, tt := range []struct {
				name   string
				from   *place
				source netip.Addr // that the server is to see; invalid: any but the client's
			}{
				{"pod", client, client.address(vip)},
				{"outsider", outsider, netip.Addr{}},
				{"hairpin", server, netip.Addr{}},
				{"node", n.node, netip.Addr{}},
			} {
				t.Run(fmt.Sprintf("%s/%s/%s", tt.name, network, vip), func(t *testing.T) {
					name, source, err := tt.from.askOnce(network, netip.AddrPortFrom(vip, 80), wait)
					if err != nil || name != server.name {
						t.Fatalf("answer of %q: %v", name, err)
					}
					own := tt.from.address(vip)
					if tt.from == n.node {
						own = vip
					}
					if tt.source.IsValid() && source != tt.source {
						t.Errorf("server sees %s, want the client's %s", source, tt.source)
					}
					if !tt.source.IsValid() && source == own {
						t.Errorf("server sees the client's %s, want it masqueraded", source)
					}
				})
			}
		}
	}
	// Without the table the hairpin fails: it is the table that answers it.
	if err := deleteTable(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := server.askOnce("tcp", netip.AddrPortFrom(vip4, 80), noAnswer); err == nil {
		t.Error("a hairpin without masquerading was answered: the test shows nothing")
	}
}

func TestNodeIsGuardedBehindItsServiceAddresses(t *testing.T) {
	n := newTopology(t)
	server, client, outsider := n.pod(), n.pod(), n.outsider()
	n.bring(services("wrr", map[*place]uint32{server: 1}))
	node := listen(t)
	gateway := netip.AddrPortFrom(netip.MustParseAddr("10.1.2.1"), node)
	if _, _, err := client.askOnce("tcp", gateway, wait); err != nil {
		t.Fatalf("the node's listener at its own address: %v", err)
	}
	for _, from := range []*place{client, outsider, n.node} {
		for _, vip := range []netip.Addr{vip4, vip6} {
			_, _, err := from.askOnce("tcp", netip.AddrPortFrom(vip, node), wait)
			if !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("tcp to %s:%d: %v, want it refused", vip, node, err)
			}
			_, _, err = from.askOnce("udp", netip.AddrPortFrom(vip, node), wait)
			if !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("udp to %s:%d: %v, want it refused", vip, node, err)
			}
		}
	}
	for _, vip := range []string{vip4.String(), vip6.String()} {
		client.inside(func() { run(t, "ping", "-c", "1", "-W", "5", vip) })
	}
	// What IPVS does not take is dropped, not refused: its clients try again.
	run(t, "ipvsadm", "-C")
	for _, network := range []string{"tcp", "udp"} {
		_, _, err := client.askOnce(network, netip.AddrPortFrom(vip4, 80), noAnswer)
		var timeout net.Error
		if !errors.As(err, &timeout) || !timeout.Timeout() {
			t.Errorf("%s to a flushed virtual server: %v, want no answer", network, err)
		}
	}
	// Without the table the listener is reached: it is the table that guards it.
	if err := deleteTable(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := client.askOnce("tcp", netip.AddrPortFrom(vip4, node), wait); err != nil {
		t.Errorf("listener without the guard: %v: the test shows nothing", err)
	}
}

// listen starts a listener of the node on all of its addresses.
func listen(t *testing.T) uint16 {
	t.Helper()
	serve(t, "node")
	return serverPort
}

func TestConnectionOutlivesAFlush(t *testing.T) {
	n := newTopology(t)
	server, client, outsider := n.pod(), n.pod(), n.outsider()
	want := services("wrr", map[*place]uint32{server: 1})
	n.bring(want)
	var open []net.Conn
	for _, from := range []*place{client, outsider, n.node, client, outsider, n.node} {
		for _, vip := range []netip.Addr{vip4, vip6} {
			c, err := from.connect("tcp", netip.AddrPortFrom(vip, 80), wait)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if _, _, err := ask(c, wait); err != nil {
				t.Fatal(err)
			}
			open = append(open, c)
		}
	}
	answers := make(chan error, len(open))
	for _, c := range open[:len(open)/2] {
		go func() { // the server answers while its virtual server is gone
			_, _, err := askFor(c, "later", wait)
			answers <- err
		}()
	}
	time.Sleep(later / 4)
	run(t, "ipvsadm", "-C")
	missing, err := n.table.Missing(context.Background(), want[0].Key())
	if err != nil || len(missing) != 1 {
		t.Fatalf("missing %v, %v after a flush", missing, err)
	}
	for _, c := range open[len(open)/2:] {
		go func() { // the client asks while the virtual server is gone
			_, _, err := ask(c, wait)
			answers <- err
		}()
	}
	time.Sleep(later)
	n.bring(want)
	for range open {
		if err := <-answers; err != nil {
			t.Errorf("connection after flush and rebuild: %v", err)
		}
	}
}

func TestGonePodDrains(t *testing.T) {
	n := newTopology(t)
	gone, stays, client := n.pod(), n.pod(), n.pod()
	n.bring(services("wrr", map[*place]uint32{gone: 1}))
	c, err := client.connect("tcp", netip.AddrPortFrom(vip4, 80), wait)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	want := services("wrr", map[*place]uint32{stays: 1})
	for range 3 {
		n.bring(want)
		if name, _, err := ask(c, wait); err != nil || name != gone.name {
			t.Fatalf("open connection: %q, %v", name, err)
		}
		if name, _, err := client.askOnce("tcp", netip.AddrPortFrom(vip4, 80), wait); err != nil || name != stays.name {
			t.Fatalf("new connection: %q, %v", name, err)
		}
	}
	if d, found := n.destination(gone); !found || d.Weight != 0 || d.ActiveConns != 1 {
		t.Errorf("draining destination %+v, found %t", d, found)
	}
	c.Close()
	deadline := time.Now().Add(wait)
	for n.drain.Draining() > 0 && time.Now().Before(deadline) {
		n.bring(want)
		time.Sleep(50 * time.Millisecond)
	}
	if _, found := n.destination(gone); found {
		t.Error("an idle destination stays")
	}
}

func TestFlowMovesOffAGonePod(t *testing.T) {
	n := newTopology(t)
	gone, stays, client := n.pod(), n.pod(), n.pod()
	n.bring(services("wrr", map[*place]uint32{gone: 1}))
	for _, vip := range []netip.Addr{vip4, vip6} {
		c, err := client.connect("udp", netip.AddrPortFrom(vip, 80), wait)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if name, _, err := ask(c, wait); err != nil || name != gone.name {
			t.Fatalf("flow: %q, %v", name, err)
		}
		n.bring(services("wrr", map[*place]uint32{stays: 1}))
		deadline := time.Now().Add(wait)
		for {
			name, _, err := ask(c, noAnswer)
			if err == nil && name == stays.name {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("flow to %s sticks to a gone pod: %q, %v", vip, name, err)
			}
		}
		n.bring(services("wrr", map[*place]uint32{gone: 1}))
	}
}

func TestSchedulerChangesUnderConnections(t *testing.T) {
	n := newTopology(t)
	a, b, client := n.pod(), n.pod(), n.pod()
	n.bring(services("wrr", map[*place]uint32{a: 2, b: 1}))
	c, err := client.connect("tcp", netip.AddrPortFrom(vip4, 80), wait)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	first, _, err := ask(c, wait)
	if err != nil {
		t.Fatal(err)
	}
	for _, scheduler := range []string{"sed", "mh", "wlc", "rr", "lc", "wrr"} {
		n.bring(services(scheduler, map[*place]uint32{a: 2, b: 1}))
		if have := n.dump()[0].Scheduler; have != scheduler {
			t.Errorf("scheduler %s, want %s", have, scheduler)
		}
		if name, _, err := ask(c, wait); err != nil || name != first {
			t.Errorf("open connection under %s: %q, %v", scheduler, name, err)
		}
		if _, _, err := client.askOnce("tcp", netip.AddrPortFrom(vip4, 80), wait); err != nil {
			t.Errorf("new connection under %s: %v", scheduler, err)
		}
	}
}

// The kernel refuses new connections while it exchanges a scheduler; our rules
// make that a silence, after which the client asks again.
func TestSchedulerChangesRefuseNoOne(t *testing.T) {
	n := newTopology(t)
	a, b, client, outsider := n.pod(), n.pod(), n.pod(), n.outsider()
	pods := map[*place]uint32{a: 2, b: 1}
	// change exchanges the scheduler until so many connections were made or one
	// failed, and returns how many did.
	change := func(connections int) (made, failed int32) {
		var done, bad atomic.Int32
		var clients sync.WaitGroup
		for _, from := range []*place{client, outsider} {
			for _, vip := range []netip.Addr{vip4, vip6} {
				clients.Go(func() {
					for done.Load() < int32(connections) && bad.Load() == 0 {
						if _, _, err := from.askOnce("tcp", netip.AddrPortFrom(vip, 80), wait); err != nil {
							t.Logf("from %s to %s: %v", from.name, vip, err)
							bad.Add(1)
						}
						done.Add(1)
					}
				})
			}
		}
		for i := 0; done.Load() < int32(connections) && bad.Load() == 0; i++ {
			n.write(services([]string{"wrr", "sed"}[i%2], pods))
		}
		clients.Wait()
		return done.Load(), bad.Load()
	}
	n.bring(services("wrr", pods))
	if made, failed := change(400); failed > 0 {
		t.Errorf("%d of %d connections failed", failed, made)
	}
	run(t, "nft", "flush", "chain", "inet", tableName, "output")
	if made, failed := change(4000); failed == 0 {
		t.Errorf("without our rules none of %d connections failed: the test shows nothing", made)
	}
}

// The kernel's wrr under Apportion, as it was simulated.
func TestSharesOfRealConnections(t *testing.T) {
	n := newTopology(t)
	shares, pods := ipvs.Shares{}, map[netip.AddrPort]*place{}
	wanted, got := map[string]float64{}, map[string]float64{}
	for _, share := range []float64{8, 4, 4, 2} {
		p := n.pod()
		e := netip.AddrPortFrom(p.four, serverPort)
		shares[e], pods[e], wanted[p.name] = share, p, share/18
	}
	client := n.pod()
	var carry ipvs.Carry
	demand := ipvs.Demand{Expected: 30}
	const periods, arrivals = 6, 30
	for range periods {
		var weights map[netip.AddrPort]uint32
		weights, carry = ipvs.Apportion("wrr", shares, demand, carry)
		byPod := map[*place]uint32{}
		for e, w := range weights {
			byPod[pods[e]] = w
		}
		n.bring(services("wrr", byPod))
		for range arrivals {
			name, _, err := client.askOnce("tcp", netip.AddrPortFrom(vip4, 80), wait)
			if err != nil {
				t.Fatal(err)
			}
			got[name]++
		}
		demand.Arrived = arrivals
	}
	for name, share := range wanted {
		if off := math.Abs(got[name]/(periods*arrivals) - share); off > 0.01 {
			t.Errorf("%s took %.3f of the connections, wanted %.3f", name, got[name]/(periods*arrivals), share)
		}
	}
}

func TestHostIsIdempotentAndCleansUpItsOwn(t *testing.T) {
	n := newTopology(t)
	other := &netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Name: "other0"}}
	if err := netlink.LinkAdd(other); err != nil {
		t.Fatal(err)
	}
	addTo(t, setUp(t, "other0"), "192.0.2.7/32", "2001:db8::7/128")
	run(t, "nft", "add table inet other; add chain inet other weir { type filter hook input priority 110; }")
	others := snapshot(t)

	d := Desired{PodCIDRs: podCIDRs, Services: []ipvs.Key{key("10.96.0.1", 80, ipvs.TCP), key("fd00:96::1", 80, ipvs.TCP),
		key("192.0.2.7", 80, ipvs.TCP), key("2001:db8::7", 80, ipvs.TCP)}}
	for range 2 {
		var refused Conflicts
		err := n.host.Ensure(context.Background(), d)
		if !errors.As(err, &refused) || len(refused) != 2 || !strings.Contains(err.Error(), "192.0.2.7 is held by device other0") {
			t.Fatalf("error %v, want the two addresses of other0 refused", err)
		}
		ours, err := n.host.Addresses()
		if err != nil || fmt.Sprint(ours) != "[10.96.0.1 fd00:96::1]" {
			t.Fatalf("addresses %v, %v", ours, err)
		}
	}
	d.Services = d.Services[:1]
	if err := n.host.Ensure(context.Background(), d); err != nil {
		t.Fatal(err)
	}
	if ours, err := n.host.Addresses(); err != nil || fmt.Sprint(ours) != "[10.96.0.1]" {
		t.Errorf("addresses %v, %v after one went", ours, err)
	}
	for range 2 {
		if err := n.host.Cleanup(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(others, snapshot(t)); diff != "" {
		t.Errorf("others' devices, addresses and rules (-before +after):\n%s", diff)
	}
}

func snapshot(t *testing.T) string {
	t.Helper()
	return run(t, "ip", "-brief", "address") + run(t, "nft", "list", "ruleset")
}

func TestHostRefusesADeviceOfAnotherKind(t *testing.T) {
	n := newTopology(t)
	if err := netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: DeviceName}}); err != nil {
		t.Fatal(err)
	}
	err := n.host.Ensure(context.Background(), Desired{})
	if err == nil || !strings.Contains(err.Error(), "weir0 is a bridge") {
		t.Errorf("error %v", err)
	}
	if err := n.host.Cleanup(context.Background()); err != nil {
		t.Fatal(err)
	}
	if _, err := netlink.LinkByName(DeviceName); err != nil {
		t.Errorf("another's device was deleted: %v", err)
	}
}

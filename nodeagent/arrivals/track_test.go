// SPDX-License-Identifier: Apache-2.0

package arrivals

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/edgeweir/weir/bpf"
	"github.com/edgeweir/weir/internal/testenv"
)

func tcp(ip string, port uint16) Address {
	return Address{IP: netip.MustParseAddr(ip), Port: port, Protocol: unix.IPPROTO_TCP}
}

func TestTrackRefuses(t *testing.T) {
	long := strings.Repeat("x", 192)
	web := Service{"web", []Address{tcp("10.0.0.1", 80)}}
	prefix := netip.MustParsePrefix("10.1.0.0/16")
	cases := []struct {
		services []Service
		origins  []Origin
		want     string
	}{
		{[]Service{{"", nil}}, nil, `service "": name is empty`},
		{[]Service{{long, nil}}, nil, `name has 192 bytes, more than 191`},
		{[]Service{{"a\x00b", nil}}, nil, `name has a zero byte`},
		{[]Service{web, web}, nil, `service "web" is given twice`},
		{[]Service{web, {"api", web.Addresses}}, nil, `service "api": address 10.0.0.1:80/6 is service "web"'s`},
		{[]Service{{"web", []Address{tcp("10.0.0.1", 0)}}}, nil, `address 10.0.0.1:0/6: port is 0`},
		{[]Service{{"web", []Address{tcp("0.0.0.0", 80)}}}, nil, `not one address`},
		{[]Service{{"web", []Address{{netip.Addr{}, 80, 6}}}}, nil, `not one address`},
		{[]Service{{"web", []Address{{netip.MustParseAddr("::1"), 80, 1}}}}, nil, `address [::1]:80/1: protocol is not TCP, UDP or SCTP`},
		{nil, []Origin{{prefix, OriginSelf}}, `origin "self": the name means what has no prefix`},
		{nil, []Origin{{netip.Prefix{}, "edge-1"}}, `origin "edge-1": prefix is not valid`},
		{nil, []Origin{{prefix, "edge-1"}, {netip.MustParsePrefix("10.1.2.3/16"), "edge-2"}}, `origin "edge-2": prefix 10.1.2.3/16 is origin "edge-1"'s`},
	}
	for _, c := range cases {
		if _, err := newWanted(c.services, c.origins); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
}

// counterOn is a Counter whose rows the test writes itself.
func counterOn(t *testing.T, options Options) *Counter {
	t.Helper()
	testenv.Require(t, testenv.Root)
	options.Attach, options.Dir = string(None), bpffs(t)
	return newNamespace(t).open(options)
}

// restart is the Counter of an agent's next start.
func restart(c *Counter, node *namespace) *Counter {
	c.Close()
	return node.open(Options{Attach: string(None), Dir: c.store.dir})
}

func mustTrack(t *testing.T, c *Counter, services ...Service) {
	t.Helper()
	if err := c.Track(services, nil); err != nil {
		t.Fatal(err)
	}
}

func serviceID(t *testing.T, c *Counter, a Address) uint32 {
	t.Helper()
	key, err := serviceKey(a)
	if err != nil {
		t.Fatal(err)
	}
	var s bpf.ArrivalsService
	if err := c.store.maps.Services.Lookup(key, &s); err != nil {
		return 0
	}
	return s.Id
}

func TestNamesKeepTheirIDs(t *testing.T) {
	testenv.Require(t, testenv.Root)
	node := newNamespace(t)
	a1, a2, b1 := tcp("10.0.0.1", 80), tcp("10.0.0.2", 80), tcp("10.0.0.3", 80)
	c := node.open(Options{Attach: string(None), Dir: bpffs(t)})
	mustTrack(t, c, Service{"a", []Address{a1}}, Service{"b", []Address{b1}})
	a, b := serviceID(t, c, a1), serviceID(t, c, b1)
	if a == b || a == 0 || b == 0 {
		t.Fatalf("ids %d, %d", a, b)
	}
	// Over a restart, with addresses that changed hands.
	c = restart(c, node)
	mustTrack(t, c, Service{"b", []Address{a1}}, Service{"a", []Address{a2}}, Service{"c", []Address{b1}})
	if got := []uint32{serviceID(t, c, a2), serviceID(t, c, a1)}; got[0] != a || got[1] != b {
		t.Errorf("ids of a and b: %v, want %d, %d", got, a, b)
	}
	if id := serviceID(t, c, b1); id == a || id == b {
		t.Errorf("the new service has id %d", id)
	}
	// Away and back within the hour.
	mustTrack(t, c)
	if id := serviceID(t, c, a2); id != 0 {
		t.Errorf("address is still tracked as %d", id)
	}
	mustTrack(t, c, Service{"a", []Address{a2}})
	if id := serviceID(t, c, a2); id != a {
		t.Errorf("a came back as %d, was %d", id, a)
	}
}

// Names long out of use go with their rows, but their ids are not given again,
// not even the highest's after a restart.
func TestRetiredNamesGoAndIDsDoNotReturn(t *testing.T) {
	testenv.Require(t, testenv.Root)
	node := newNamespace(t)
	c := node.open(Options{Attach: string(None), Dir: bpffs(t)})
	address := tcp("10.0.0.1", 80)
	seen := map[uint32]bool{}
	for round := range 3 {
		mustTrack(t, c, Service{"a", []Address{address}}, Service{"keep", nil})
		id := serviceID(t, c, address)
		if seen[id] {
			t.Fatalf("round %d: id %d again", round, id)
		}
		seen[id] = true
		setRow(t, c, bpf.ArrivalsArrivalKey{Service: id, Origin: 1}, 7)
		nothing, _ := newWanted([]Service{{"keep", nil}}, nil)
		for _, now := range []time.Time{time.Now(), time.Now().Add(2 * time.Hour)} {
			book, err := c.store.loadBook()
			if err != nil {
				t.Fatal(err)
			}
			if err := c.store.apply(nothing, book, now); err != nil {
				t.Fatal(err)
			}
		}
		totals, err := c.Read(context.Background())
		if err != nil || len(totals.Rows) != 1 || totals.Rows[0].Service != "keep" || totals.Overflow != 0 {
			t.Fatalf("left: %+v, %v", totals, err)
		}
		c = restart(c, node)
	}
}

func setRow(t *testing.T, c *Counter, key bpf.ArrivalsArrivalKey, tasks uint64) {
	t.Helper()
	if err := c.store.addRow(key); err != nil {
		t.Fatal(err)
	}
	var perCPU []bpf.ArrivalsArrival
	if err := c.store.maps.Arrivals.Lookup(key, &perCPU); err != nil {
		t.Fatal(err)
	}
	for i := range perCPU { // spread, so that summing matters
		perCPU[i].Tasks = tasks / uint64(len(perCPU))
	}
	perCPU[0].Tasks += tasks % uint64(len(perCPU))
	if err := c.store.maps.Arrivals.Put(key, perCPU); err != nil {
		t.Fatal(err)
	}
}

func TestTooManyServices(t *testing.T) {
	c := counterOn(t, Options{MaxServices: 2})
	err := c.Track([]Service{{"a", []Address{tcp("10.0.0.1", 80), tcp("10.0.0.2", 80), tcp("10.0.0.3", 80)}}}, nil)
	if err == nil || !strings.Contains(err.Error(), "map services") || !strings.Contains(err.Error(), "all 2 entries are taken") {
		t.Errorf("got %v", err)
	}
	mustTrack(t, c, Service{"a", []Address{tcp("10.0.0.4", 80), tcp("10.0.0.5", 80)}})
}

// Many rows, read in batches and one by one, are the same, and are all there.
func TestReadIsComplete(t *testing.T) {
	c := counterOn(t, Options{MaxArrivals: 4000})
	want := map[bpf.ArrivalsArrivalKey]uint64{{}: 0}
	for i := range uint64(3000) {
		key := bpf.ArrivalsArrivalKey{Service: uint32(i/10 + 1), Origin: uint32(i % 10)}
		want[key] = i
		setRow(t, c, key, i)
	}
	got, err := dumpRows(c.store.maps.Arrivals)
	if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%d rows of %d, %v", len(got), len(want), err)
	}
	got, err = iterateRows(c.store.maps.Arrivals)
	if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("one by one: %d rows of %d, %v", len(got), len(want), err)
	}
	got = map[bpf.ArrivalsArrivalKey]uint64{} // batches smaller than a bucket grow
	err = batches(c.store.maps.Arrivals, 1, len(perCPUOf(t, c)), func(keys []bpf.ArrivalsArrivalKey, values []bpf.ArrivalsArrival) {
		for i, key := range keys {
			got[key] = sum(values[i*len(perCPUOf(t, c)) : (i+1)*len(perCPUOf(t, c))])
		}
	})
	if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("in batches from 1 on: %d rows of %d, %v", len(got), len(want), err)
	}
}

func perCPUOf(t *testing.T, c *Counter) (perCPU []bpf.ArrivalsArrival) {
	t.Helper()
	if err := c.store.maps.Arrivals.Lookup(bpf.ArrivalsArrivalKey{}, &perCPU); err != nil {
		t.Fatal(err)
	}
	return perCPU
}

func TestReadEndsWithItsContext(t *testing.T) {
	c := counterOn(t, Options{})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := c.Read(ctx); err == nil {
		t.Error("read after the end")
	}
}

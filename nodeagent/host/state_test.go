// SPDX-License-Identifier: Apache-2.0

package host

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/edgeweir/weir/nodeagent/ipvs"
)

func key(address string, port uint16, p ipvs.Protocol) ipvs.Key {
	return ipvs.Key{Address: netip.MustParseAddr(address), Port: port, Protocol: p}
}

func TestDerive(t *testing.T) {
	d := Desired{
		Services: []ipvs.Key{
			key("10.96.0.1", 80, ipvs.TCP), key("10.96.0.1", 53, ipvs.UDP), key("fd00::1", 80, ipvs.TCP),
			key("192.0.2.7", 443, ipvs.TCP), key("127.0.0.1", 80, ipvs.TCP), key("169.254.20.10", 53, ipvs.UDP),
		},
		PodCIDRs:  []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")},
		Endpoints: []netip.Addr{netip.MustParseAddr("10.1.0.9"), netip.MustParseAddr("10.1.0.9")},
	}
	s := derive(d, map[netip.Addr]string{netip.MustParseAddr("192.0.2.7"): "eth0", netip.MustParseAddr("127.0.0.1"): "lo"})
	if got := fmt.Sprint(s.addresses); got != "[10.96.0.1 fd00::1]" {
		t.Errorf("addresses %s", got)
	}
	want := "service address 192.0.2.7 is held by device eth0 of this node; " +
		"service address 127.0.0.1 is held by device lo of this node; " +
		"service address 169.254.20.10 is not a global unicast address"
	if got := s.refused.Error(); got != want {
		t.Errorf("refused %q, want %q", got, want)
	}
	sizes := map[string]int{"vips4": 2, "vips6": 1, "addresses4": 1, "addresses6": 1, "hairpin4": 1, "pods4": 2}
	for _, set := range sets() {
		if got := len(s.elements[set.name]); got != sizes[set.name] {
			t.Errorf("set %s has %d elements, want %d", set.name, got, sizes[set.name])
		}
	}
	if got := s.elements["vips4"][0].key; got != "\x0a\x60\x00\x01\x06\x00\x00\x00\x00\x50\x00\x00" {
		t.Errorf("element of 10.96.0.1:80/TCP is %x", got)
	}
}

// Merged ranges cover what the prefixes cover and nothing else, in order and
// without touching.
func TestMerge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var prefixes []netip.Prefix
		for range rapid.IntRange(0, 8).Draw(t, "prefixes") {
			a := netip.AddrFrom4([4]byte{255, 255, 255, byte(rapid.IntRange(0, 255).Draw(t, "address"))})
			prefixes = append(prefixes, netip.PrefixFrom(a, rapid.IntRange(25, 32).Draw(t, "bits")))
		}
		ranges := merge(prefixes)
		for i := range ranges {
			if i > 0 && ranges[i-1].reaches(ranges[i].first) {
				t.Fatalf("%v touch", ranges)
			}
		}
		for i := range 256 {
			a := netip.AddrFrom4([4]byte{255, 255, 255, byte(i)})
			want := slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(a) })
			got := slices.ContainsFunc(ranges, func(r addressRange) bool { return !a.Less(r.first) && !r.last.Less(a) })
			if got != want {
				t.Fatalf("%s: in ranges %t, in prefixes %t", a, got, want)
			}
		}
	})
}

func TestMergeKeepsFamiliesApart(t *testing.T) {
	got := merge([]netip.Prefix{netip.MustParsePrefix("::/0"), netip.MustParsePrefix("255.0.0.0/8"), netip.MustParsePrefix("254.0.0.0/8")})
	if len(got) != 2 || got[0].first.String() != "254.0.0.0" || got[1].last.String() != "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff" {
		t.Errorf("ranges %v", got)
	}
	if n := len(rangeElements(got[0])); n != 1 {
		t.Errorf("a range to the last address has %d ends, want it open", n)
	}
}

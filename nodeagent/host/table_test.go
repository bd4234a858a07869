// SPDX-License-Identifier: Apache-2.0

package host

import (
	"fmt"
	"net/netip"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/edgeweir/weir/internal/testenv"
	"github.com/edgeweir/weir/nodeagent/ipvs"
)

// namespace moves the test into a network namespace of its own, which goes with
// the test's thread.
func namespace(t *testing.T) {
	t.Helper()
	runtime.LockOSThread() // never unlocked: the thread ends with the test
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Fatalf("unshare network namespace: %v", err)
	}
}

func run(t *testing.T, command string, arguments ...string) string {
	t.Helper()
	out, err := exec.Command(command, arguments...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v %s", command, strings.Join(arguments, " "), err, out)
	}
	return string(out)
}

func mustWrite(t *testing.T, d Desired) string {
	t.Helper()
	changed, err := writeTable(derive(d, nil).elements)
	if err != nil {
		t.Fatal(err)
	}
	return changed
}

func sample(services int) Desired {
	d := Desired{
		PodCIDRs: []netip.Prefix{
			netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("10.2.0.0/16"),
			netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("255.0.0.0/8"), netip.MustParsePrefix("fd01::/48"),
		},
	}
	for i := range services {
		four := netip.AddrFrom4([4]byte{10, 96, byte(i >> 8), byte(i)})
		six := netip.MustParseAddr(fmt.Sprintf("fd00:96::%x", i+1))
		for _, p := range []ipvs.Protocol{ipvs.TCP, ipvs.UDP, ipvs.SCTP} {
			d.Services = append(d.Services, ipvs.Key{Address: four, Port: 80, Protocol: p}, ipvs.Key{Address: six, Port: 80, Protocol: p})
		}
		d.Endpoints = append(d.Endpoints, netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)}), netip.MustParseAddr(fmt.Sprintf("fd01::%x", i+1)))
	}
	return d
}

func TestTableIsWrittenOnceAndThenByDifference(t *testing.T) {
	testenv.Require(t, testenv.Root, testenv.NFTables)
	namespace(t)
	run(t, "nft", "add table inet other; add chain inet other weir; add table ip weir; add set ip weir vips4 { type ipv4_addr; elements = { 192.0.2.1 }; }")
	others := run(t, "nft", "list", "ruleset")

	d := sample(700) // more than one message of elements
	for i, want := range []string{"made anew", ""} {
		if got := mustWrite(t, d); got != want {
			t.Fatalf("write %d: %q, want %q", i, got, want)
		}
	}
	d.Services = d.Services[1:]
	d.Endpoints = append(d.Endpoints, netip.MustParseAddr("10.1.9.9"))
	if got := mustWrite(t, d); got != "1 elements added, 1 deleted" {
		t.Errorf("one of each changed: %q", got)
	}
	d.PodCIDRs = d.PodCIDRs[:3]
	if got := mustWrite(t, d); got == "" {
		t.Error("a changed range was not written")
	}
	if got := mustWrite(t, d); got != "" {
		t.Errorf("nothing changed: %q", got)
	}
	if err := deleteTable(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(others, run(t, "nft", "list", "ruleset")); diff != "" {
		t.Errorf("others' tables (-before +after):\n%s", diff)
	}
	if err := deleteTable(); err != nil {
		t.Errorf("nothing to delete: %v", err)
	}
}

func TestDamagedTableIsRepaired(t *testing.T) {
	testenv.Require(t, testenv.Root, testenv.NFTables)
	namespace(t)
	d := sample(2)
	mustWrite(t, d)
	whole := run(t, "nft", "list", "ruleset")
	for _, damage := range []string{
		"flush chain inet weir vip",
		"add rule inet weir answers accept",
		"insert rule inet weir input drop",
		"add chain inet weir more",
		"add set inet weir more { type ipv4_addr; }",
		"delete table inet weir",
		"flush set inet weir vips4",
		"add element inet weir addresses4 { 192.0.2.1 }",
	} {
		run(t, "nft", damage)
		if mustWrite(t, d) == "" {
			t.Errorf("%s: not noticed", damage)
		}
		if diff := cmp.Diff(whole, run(t, "nft", "list", "ruleset")); diff != "" {
			t.Errorf("%s (-whole +repaired):\n%s", damage, diff)
		}
	}
}

// What nft prints is what operators see, and what a load of its own output has
// to accept.
func TestTableReadsBack(t *testing.T) {
	testenv.Require(t, testenv.Root, testenv.NFTables)
	namespace(t)
	mustWrite(t, sample(1))
	text := run(t, "nft", "list", "table", "inet", "weir")
	t.Log(text)
	for _, want := range []string{
		"type filter hook input priority 110; policy accept;",
		"type nat hook postrouting priority srcnat; policy accept;",
		"10.96.0.0 . tcp . 80", "10.1.0.0-10.2.255.255", "not taken by ipvs",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing", want)
		}
	}
}

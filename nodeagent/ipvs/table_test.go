// SPDX-License-Identifier: Apache-2.0

package ipvs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/edgeweir/weir/internal/testenv"
)

// namespace moves the test into a network namespace of its own, which goes with
// the test's thread.
func namespace(t *testing.T) {
	t.Helper()
	runtime.LockOSThread() // never unlocked: the thread ends with the test
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Fatalf("unshare network namespace: %v", err)
	}
	loopbackUp(t)
}

// loopbackUp gives the namespace its local routing table: without one the
// kernel takes every IPv4 destination for a broadcast address.
func loopbackUp(t testing.TB) {
	t.Helper()
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		t.Fatal(err)
	}
}

func openTable(t *testing.T) *Table {
	t.Helper()
	testenv.Require(t, testenv.Root, testenv.IPVS)
	namespace(t)
	table, err := Open(slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { table.Close() })
	return table
}

func mustDump(t *testing.T, table *Table) []Service {
	t.Helper()
	services, err := table.Dump(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return services
}

func mustApply(t *testing.T, table *Table, ops []Op) {
	t.Helper()
	r, err := table.Apply(context.Background(), ops)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range r.Failed {
		t.Error(f.Err)
	}
	if r.Applied != len(ops)-len(r.Failed) {
		t.Errorf("%d of %d applied, %d failed", r.Applied, len(ops), len(r.Failed))
	}
}

func mine(Key) bool { return true }

// bring brings the table to want and checks that nothing is left to do.
func bring(t *testing.T, table *Table, want []Service, owned func(Key) bool) []Service {
	t.Helper()
	drain := Drain{}
	var ops []Op
	for range 2 { // at weight 0, then away
		ops, drain = Plan(mustDump(t, table), want, owned, start, drain)
		mustApply(t, table, ops)
	}
	have := mustDump(t, table)
	if ops, _ = Plan(have, want, owned, start, drain); len(ops) != 0 {
		t.Errorf("the plan after the plan is not empty: %v", ops)
	}
	return have
}

func everyKind() []Service {
	var all []Service
	for _, a := range []string{"10.96.0.1", "fd00:96::1"} {
		for _, p := range []Protocol{TCP, UDP, SCTP} {
			for i, scheduler := range []string{"wrr", "sed", "wlc", "mh", "rr", "lc"} {
				s := Service{Address: netip.MustParseAddr(a), Port: 80 + uint16(i), Protocol: p, Scheduler: scheduler}
				pod := netip.MustParseAddr("10.1.0.1")
				if s.Address.Is6() {
					pod = netip.MustParseAddr("2001:db8::") // moby/ipvs may take it for IPv4
				}
				for w := range uint32(3) {
					s.Destinations = append(s.Destinations, Destination{Address: pod, Port: 8080, Weight: w * MaxWeight / 2})
					pod = pod.Next()
				}
				all = append(all, s)
			}
		}
	}
	all[0].Affinity = 3 * time.Hour
	all[18].Affinity = time.Minute
	return all
}

// Open says in one line what to do where the kernel has no IPVS, and must work
// where it has.
func TestOpenWithAndWithoutIPVS(t *testing.T) {
	testenv.Require(t, testenv.Root)
	_, absent := lookUpFamily()
	without := absent != nil && exec.Command("modprobe", "ip_vs").Run() != nil
	table, err := Open(slog.New(slog.DiscardHandler))
	switch {
	case !without && err != nil:
		t.Errorf("open on a kernel with IPVS: %v", err)
	case !without:
		table.Close()
	case !errors.Is(err, ErrNoIPVS), !strings.Contains(err.Error(), "modprobe ip_vs"), strings.Contains(err.Error(), "\n"):
		t.Errorf("error %q, want one line that says what to do", err)
	}
}

func TestTableHoldsWhatIsWanted(t *testing.T) {
	table := openTable(t)
	want := everyKind()
	have := bring(t, table, want, mine)
	if diff := cmp.Diff(want, have, sameTable); diff != "" {
		t.Errorf("table (-want +have):\n%s", diff)
	}
	for i := range want { // change everything that can change
		want[i].Scheduler = "wrr"
		want[i].Affinity = 0
		want[i].Destinations = append(want[i].Destinations[1:], Destination{
			Address: want[i].Destinations[0].Address, Port: 9090, Weight: 7})
	}
	have = bring(t, table, want[6:], mine)
	if diff := cmp.Diff(want[6:], have, sameTable); diff != "" {
		t.Errorf("changed table (-want +have):\n%s", diff)
	}
}

func TestTableBatchesAcrossSends(t *testing.T) {
	table := openTable(t)
	s := Service{Address: netip.MustParseAddr("10.96.0.1"), Port: 80, Protocol: TCP, Scheduler: "wrr"}
	for i := range 1000 {
		s.Destinations = append(s.Destinations, Destination{Address: endpoint(i).Addr(), Port: 8080, Weight: uint32(i + 1)})
	}
	bring(t, table, []Service{s}, mine)
	for i := range s.Destinations {
		s.Destinations[i].Weight = uint32(2000 - i)
	}
	began := time.Now()
	have := bring(t, table, []Service{s}, mine)
	t.Logf("1000 weights and four dumps in %s", time.Since(began))
	if diff := cmp.Diff([]Service{s}, have, sameTable); diff != "" {
		t.Errorf("table (-want +have):\n%s", diff)
	}
}

func TestApplyCollectsEachError(t *testing.T) {
	table := openTable(t)
	s := Service{Address: netip.MustParseAddr("10.96.0.1"), Port: 80, Protocol: TCP, Scheduler: "wrr"}
	a, b := Destination{Address: endpoint(1).Addr(), Port: 80, Weight: 1}, Destination{Address: endpoint(2).Addr(), Port: 80, Weight: 2}
	var ops []Op
	for range 200 { // refused again and again: errors must not overflow the socket
		ops = append(ops, Op{CreateService, s, Destination{}}, Op{UpdateDestination, s, b}, Op{AddDestination, s, a}, Op{RemoveDestination, s, b})
	}
	r, err := table.Apply(context.Background(), ops)
	if err != nil {
		t.Fatal(err)
	}
	// The first creation and the first addition succeed, removals of what is not
	// there count as done.
	if r.Applied != 202 || len(r.Failed) != 598 {
		t.Errorf("%d applied, %d failed", r.Applied, len(r.Failed))
	}
	for i, want := range []error{unix.ENOENT, unix.EEXIST, unix.ENOENT, unix.EEXIST} {
		if !errors.Is(r.Failed[i].Err, want) {
			t.Errorf("failure %d: %v, want %v", i, r.Failed[i].Err, want)
		}
	}
	bad := Op{CreateService, Service{Address: s.Address, Port: 81, Protocol: TCP, Scheduler: "nosuch"}, Destination{}}
	if r, err = table.Apply(context.Background(), []Op{bad}); err != nil || len(r.Failed) != 1 {
		t.Errorf("unknown scheduler: %v, %v", r, err)
	}
}

func TestForeignServersAreLeft(t *testing.T) {
	table := openTable(t)
	foreign := everyKind()
	bring(t, table, foreign, mine)
	if out, err := exec.Command("ipvsadm", "-A", "-f", "7", "-s", "rr").CombinedOutput(); err != nil {
		t.Fatalf("ipvsadm: %v %s", err, out)
	}
	before := ipvsadm(t)
	ours := netip.MustParseAddr("10.97.0.1")
	owned := func(k Key) bool { return k.Address == ours }
	s := foreign[0]
	s.Address = ours
	want := append(slices.Clone(foreign[3:]), s) // wanted, but not ours, changes nothing either
	want[0].Scheduler = "sed"
	bring(t, table, want, owned)
	if during := ipvsadm(t); !strings.Contains(during, ours.String()) {
		t.Fatalf("our own server is missing:\n%s", during)
	}
	bring(t, table, nil, owned)
	if diff := cmp.Diff(before, ipvsadm(t)); diff != "" {
		t.Errorf("others' virtual servers (-before +after):\n%s", diff)
	}
}

func ipvsadm(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("ipvsadm", "-S", "-n").CombinedOutput()
	if err != nil {
		t.Fatalf("ipvsadm: %v %s", err, out)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return strings.Join(lines, "\n")
}

func TestMissing(t *testing.T) {
	table := openTable(t)
	want := everyKind()
	var keys []Key
	for _, s := range want {
		keys = append(keys, s.Key())
	}
	bring(t, table, want, mine)
	look := func() int {
		t.Helper()
		missing, err := table.Missing(context.Background(), keys...)
		if err != nil {
			t.Fatal(err)
		}
		return len(missing)
	}
	if n := look(); n != 0 {
		t.Errorf("%d missing from a whole table", n)
	}
	if out, err := exec.Command("ipvsadm", "-C").CombinedOutput(); err != nil {
		t.Fatalf("ipvsadm: %v %s", err, out)
	}
	if n := look(); n != len(keys) {
		t.Errorf("%d of %d missing from a flushed table", n, len(keys))
	}
	bring(t, table, want, mine)
	if n := look(); n != 0 {
		t.Errorf("%d missing from a rebuilt table", n)
	}
}

func TestRemovedFlowsLeaveTheSettingOff(t *testing.T) {
	table := openTable(t)
	bring(t, table, everyKind(), mine)
	bring(t, table, nil, mine)
	value, err := os.ReadFile(expireNoDestination)
	if err != nil || strings.TrimSpace(string(value)) != "0" {
		t.Errorf("expire_nodest_conn is %q, %v, want 0", value, err)
	}
}

// A call that does not end is given up, and the next one works.
func TestStuckCallIsGivenUp(t *testing.T) {
	table := openTable(t)
	release := make(chan struct{})
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	_, err := call(ctx, table, func(*session) (int, error) {
		<-release
		return 0, nil
	})
	close(release)
	if !errors.Is(err, ErrStuck) {
		t.Errorf("error %v, want a stuck call", err)
	}
	if have := bring(t, table, everyKind(), mine); len(have) != len(everyKind()) {
		t.Errorf("%d services after reopening", len(have))
	}
}

func BenchmarkWriteWeights(b *testing.B) {
	testenv.Require(b, testenv.Root, testenv.IPVS)
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		b.Fatal(err)
	}
	loopbackUp(b)
	table, err := Open(slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	defer table.Close()
	var ops, writes []Op
	for i := range 100 {
		s := Service{Address: netip.AddrFrom4([4]byte{10, 96, 0, byte(i)}), Port: 80, Protocol: TCP, Scheduler: "wrr"}
		ops = append(ops, Op{CreateService, s, Destination{}})
		for j := range 10 {
			d := Destination{Address: endpoint(j).Addr(), Port: 80, Weight: uint32(j + 1)}
			ops = append(ops, Op{AddDestination, s, d})
			writes = append(writes, Op{UpdateDestination, s, d})
		}
	}
	if r, err := table.Apply(context.Background(), ops); err != nil || len(r.Failed) != 0 {
		b.Fatal(err, fmt.Sprint(r.Failed))
	}
	for b.Loop() {
		if _, err := table.Apply(context.Background(), writes); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(writes)*b.N)/b.Elapsed().Seconds(), "writes/s")
}

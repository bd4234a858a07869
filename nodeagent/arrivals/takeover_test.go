// SPDX-License-Identifier: Apache-2.0

package arrivals

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"

	"github.com/edgeweir/weir/bpf"
)

// otherVersion gives a program other instructions that do the same.
func otherVersion(t *testing.T, kind Attachment) *ebpf.CollectionSpec {
	t.Helper()
	load := bpf.LoadArrivalsTC
	if kind == Netfilter {
		load = bpf.LoadArrivals
	}
	spec, err := load()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range spec.Programs {
		first := p.Instructions[0]
		nop := asm.Mov.Imm(asm.R0, 0)
		nop.Metadata = first.Metadata // the symbol
		p.Instructions[0] = first.WithMetadata(asm.Metadata{})
		p.Instructions = append(asm.Instructions{nop}, p.Instructions...)
	}
	return spec
}

// stream makes connections from the client, and from the node itself where that
// is seen, until stop is called, which returns the clients' log.
func stream(node, client *namespace, local bool) (stop func() map[rowName]uint64) {
	var from, self atomic.Uint64
	done := make(chan struct{})
	var wait sync.WaitGroup
	run := func(n *namespace, made *atomic.Uint64) {
		wait.Go(func() {
			n.do(func() {
				for {
					select {
					case <-done:
						return
					default:
						made.Add(connect(1, vip4+":80"))
					}
				}
			})
		})
	}
	run(client, &from)
	run(client, &from)
	if local {
		run(node, &self)
	}
	return func() map[rowName]uint64 {
		close(done)
		wait.Wait()
		return map[rowName]uint64{web4: from.Load(), {"web4", OriginSelf}: self.Load()}
	}
}

// Agents come and go, of the same version and of another, while clients connect:
// the deltas that they report, each from where the last one stopped, add up to
// what the clients did.
func TestNothingLostOrDoubledOverTakeovers(t *testing.T) {
	for _, way := range []Attachment{Netfilter, TCX, Clsact} {
		t.Run(string(way), func(t *testing.T) {
			node, client := newWire(t)
			node.serve("[::]:80")
			dir := bpffs(t)
			track(t, node.open(Options{Dir: dir, Attach: string(way)}))
			stop := stream(node, client, way.SeesLocal())
			reported := map[rowName]uint64{}
			var last Totals
			report := func(c *Counter) {
				cur, err := c.Read(context.Background())
				if err != nil {
					t.Fatal(err)
				}
				for _, r := range Delta(last, cur).Rows {
					reported[rowName{r.Service, r.Origin}] += r.Tasks
				}
				last = cur
			}
			for round := range 4 {
				if round%2 == 1 { // a predecessor of another version
					node.do(func() { supersede(t, dir, way) })
				}
				c := node.open(Options{Dir: dir, Attach: string(way)})
				track(t, c)
				report(c)
				if err := c.Close(); err != nil {
					t.Fatal(err)
				}
				time.Sleep(50 * time.Millisecond)
			}
			want := stop()
			time.Sleep(100 * time.Millisecond)
			c := node.open(Options{Dir: dir, Attach: string(way)})
			report(c)
			wantRows(t, c, want)
			if fmt.Sprint(reported) != fmt.Sprint(want) {
				t.Errorf("reported %v, the clients did %v", reported, want)
			}
			if want[web4] < 100 {
				t.Errorf("only %v connections: the test tested little", want)
			}
		})
	}
}

// supersede attaches another version in the place of what runs.
func supersede(t *testing.T, dir string, way Attachment) {
	options, err := Options{Dir: dir, Attach: string(way), Logger: slog.New(slog.DiscardHandler)}.withDefaults()
	if err != nil {
		t.Error(err)
		return
	}
	s, err := openStore(options)
	if err != nil {
		t.Error(err)
		return
	}
	defer s.close()
	before := pinsOf(t, dir)
	if err := s.openMaps(options); err != nil {
		t.Error(err)
		return
	}
	at, err := attachSpec(way, options, s, otherVersion(t, way))
	if err != nil {
		t.Errorf("%+v", err)
		return
	}
	at.close()
	if way == Netfilter && fmt.Sprint(before) == fmt.Sprint(pinsOf(t, dir)) {
		t.Errorf("links stayed: %v", before)
	}
}

func pinsOf(t *testing.T, dir string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*", "*"))
	if err != nil {
		t.Error(err)
	}
	return paths
}

// The negative control of the above: detach first, and tasks are lost.
func TestDetachingFirstLoses(t *testing.T) {
	node, client := newWire(t)
	node.serve("[::]:80")
	dir := bpffs(t)
	c := node.open(Options{Dir: dir, Attach: string(Netfilter)})
	track(t, c)
	stop := stream(node, client, false)
	paths, _ := filepath.Glob(filepath.Join(dir, "v1", "netfilter_*"))
	if len(paths) != 4 {
		t.Fatalf("links %v", paths)
	}
	for _, path := range paths {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(200 * time.Millisecond)
	c = node.open(Options{Dir: dir, Attach: string(Netfilter)})
	want := stop()
	time.Sleep(100 * time.Millisecond)
	totals, err := c.Read(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if got := totals.ByService()["web4"]; got >= want[web4] {
		t.Errorf("counted %d of %d without being attached", got, want[web4])
	}
}

// A restart of the same version touches no link.
func TestRestartKeepsLinks(t *testing.T) {
	node, _ := newWire(t)
	for _, way := range []Attachment{Netfilter, TCX} {
		dir := bpffs(t)
		node.open(Options{Dir: dir, Attach: string(way)})
		before := linkIDs(t, dir)
		c := node.open(Options{Dir: dir, Attach: string(way)})
		if after := linkIDs(t, dir); len(before) == 0 || fmt.Sprint(after) != fmt.Sprint(before) {
			t.Errorf("%s: links %v became %v", way, before, after)
		}
		if c.Attachment() != way {
			t.Errorf("attached by %s", c.Attachment())
		}
	}
}

func linkIDs(t *testing.T, dir string) map[string]link.ID {
	t.Helper()
	ids := map[string]link.ID{}
	for _, path := range pinsOf(t, dir) {
		if !strings.HasPrefix(filepath.Base(path), "netfilter_") && !strings.HasPrefix(filepath.Base(path), "tcx_") {
			continue
		}
		l, err := link.LoadPinnedLink(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		info, err := l.Info()
		if err != nil {
			t.Fatal(err)
		}
		ids[filepath.Base(path)] = info.ID
	}
	return ids
}

// Where others have the priorities, links go below, and count.
func TestPriorityTaken(t *testing.T) {
	node, client := newWire(t)
	node.serve("[::]:80")
	first, second := bpffs(t), bpffs(t)
	track(t, node.open(Options{Dir: first}))
	c := node.open(Options{Dir: second})
	track(t, c)
	if got := strings.Join(c.attached.where(), " "); got != "netfilter_in4_96 netfilter_in6_96 netfilter_out4_-102 netfilter_out6_-102" {
		t.Errorf("links %s", got)
	}
	wantRows(t, c, map[rowName]uint64{web4: client.connect(20, vip4+":80")})
}

// A change of the way of counting leaves nothing of the old one, and no gap.
func TestChangeOfWay(t *testing.T) {
	node, client := newWire(t)
	node.serve("[::]:80")
	dir := bpffs(t)
	track(t, node.open(Options{Dir: dir, Attach: string(Clsact)}))
	stop := stream(node, client, false)
	var c *Counter
	for _, way := range []Attachment{Netfilter, TCX, Clsact, TCX, Netfilter} {
		c = node.open(Options{Dir: dir, Attach: string(way)})
		time.Sleep(50 * time.Millisecond)
	}
	wantRows(t, c, stop())
	for _, path := range pinsOf(t, dir) {
		name := filepath.Base(path)
		if strings.HasPrefix(name, "tcx") || strings.HasPrefix(name, "clsact") || strings.HasPrefix(name, "qdisc") {
			t.Errorf("%s is left", name)
		}
	}
	if out := node.run("tc qdisc show dev wire\ntc filter show dev wire ingress"); strings.Contains(out, "clsact") || strings.Contains(out, "weir") {
		t.Errorf("left at the device: %s", out)
	}
}

// Links that count in another namespace are not taken for this one's.
func TestFolderOfAnotherNamespace(t *testing.T) {
	node, client := newWire(t)
	dir := bpffs(t)
	node.open(Options{Dir: dir}).Close()
	options := Options{Dir: dir, Logger: slog.New(slog.DiscardHandler)}
	var err error
	client.do(func() { _, err = Open(options) })
	if err == nil || !strings.Contains(err.Error(), "belongs to network namespace") {
		t.Errorf("got %v", err)
	}
	node.open(Options{Dir: dir})
}

// Maps of another shape are left alone, and counting starts in a folder beside.
func TestMapsOfAnotherShape(t *testing.T) {
	node, client := newWire(t)
	node.serve("[::]:80")
	dir := bpffs(t)
	old := filepath.Join(dir, "v1")
	if err := os.MkdirAll(old, 0o700); err != nil {
		t.Fatal(err)
	}
	foreign, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Hash, KeySize: 4, ValueSize: 4, MaxEntries: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer foreign.Close()
	if err := foreign.Pin(filepath.Join(old, "arrivals")); err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	options := Options{Dir: dir, Logger: slog.New(slog.NewTextHandler(&log, nil))}
	c := node.open(options)
	track(t, c)
	wantRows(t, c, map[rowName]uint64{web4: client.connect(5, vip4+":80")})
	if paths := pinsOf(t, old); len(paths) != 0 || c.store.path != filepath.Join(dir, "v1-1") {
		t.Errorf("pins %v, counting in %s", paths, c.store.path)
	}
	if entries, err := os.ReadDir(old); err != nil || len(entries) != 1 {
		t.Errorf("the old folder holds %v, %v", entries, err)
	}
	if !strings.Contains(log.String(), "another shape") {
		t.Errorf("not in the log: %s", log.String())
	}
	// The successor comes to the same folder.
	if again := node.open(options); again.Epoch() != c.Epoch() {
		t.Errorf("epoch %s became %s", c.Epoch(), again.Epoch())
	}
}

func TestCleanupRemovesOnlyWhatIsOurs(t *testing.T) {
	for _, way := range []Attachment{Netfilter, TCX, Clsact} {
		node, _ := newWire(t)
		node.run("tc qdisc add dev lo clsact")
		dir := bpffs(t)
		c := node.open(Options{Dir: dir, Attach: string(way), Interfaces: []string{"lo", "wire"}})
		track(t, c)
		var err error
		node.do(func() { err = Cleanup(dir) })
		if err != nil {
			t.Errorf("%s: %v", way, err)
		}
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: folder is left: %v", way, err)
		}
		if out := node.run("tc qdisc show dev wire\ntc filter show dev wire ingress"); strings.Contains(out, "clsact") || strings.Contains(out, "bpf") {
			t.Errorf("%s: left at the device: %s", way, out)
		}
		if out := node.run("tc qdisc show dev lo"); !strings.Contains(out, "clsact") {
			t.Errorf("%s: another's qdisc is gone: %s", way, out)
		}
		if out := node.run("tc filter show dev lo ingress"); strings.Contains(out, "bpf") {
			t.Errorf("%s: filter is left: %s", way, out)
		}
	}
}

func TestCleanupLeavesForeignPins(t *testing.T) {
	node, _ := newWire(t)
	dir := bpffs(t)
	node.open(Options{Dir: dir})
	foreign := filepath.Join(dir, "v1", "foreign")
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 4, MaxEntries: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if err := m.Pin(foreign); err != nil {
		t.Fatal(err)
	}
	node.do(func() { err = Cleanup(dir) })
	if err == nil {
		t.Error("nothing said about what is left")
	}
	if pins := pinsOf(t, dir); !slices.Equal(pins, []string{foreign}) {
		t.Errorf("pins %v", pins)
	}
}

// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/edgeweir/weir/internal/testenv"
)

const testPrefix = "weirtest-top-"

func build(t *testing.T, cfg Config) *Topology {
	t.Helper()
	testenv.Require(t, testenv.Root)
	cfg.Prefix = testPrefix
	lab, err := Build(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := lab.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		if left := leftovers(t); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	})
	return lab
}

// leftovers lists what of the test's lab is still there.
func leftovers(t *testing.T) []string {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(namedDir, testPrefix+"*"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(stateDir(testPrefix)); err == nil {
		left = append(left, stateDir(testPrefix))
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, strings.TrimSuffix(testPrefix, "-")) {
			left = append(left, line)
		}
	}
	for _, root := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		dir := filepath.Join(root, labCgroup(testPrefix))
		if _, err := os.Stat(dir); err == nil {
			left = append(left, dir)
		}
	}
	return left
}

// answer listens in the pod and tells each caller the pod's name and the
// caller's address.
func answer(t *testing.T, p Pod) {
	t.Helper()
	var l net.Listener
	err := Do(p.Namespace, func() (err error) {
		l, err = net.Listen("tcp", ":80")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			fmt.Fprintf(c, "%s %s", p.Name, c.RemoteAddr())
			c.Close()
		}
	}()
}

// ask calls the pod from an address in a namespace and returns the pod's name
// and the caller that the pod saw.
func ask(namespace string, from, pod netip.Addr) (name string, caller netip.AddrPort, err error) {
	var conn net.Conn
	err = Do(namespace, func() (err error) {
		d := net.Dialer{Timeout: 5 * time.Second, LocalAddr: &net.TCPAddr{IP: from.AsSlice()}}
		conn, err = d.Dial("tcp", netip.AddrPortFrom(pod, 80).String())
		return err
	})
	if err != nil {
		return "", caller, err
	}
	defer conn.Close()
	b, err := io.ReadAll(conn)
	if err != nil {
		return "", caller, err
	}
	name, addr, _ := strings.Cut(string(b), " ")
	caller, err = netip.ParseAddrPort(addr)
	return name, netip.AddrPortFrom(caller.Addr().Unmap(), caller.Port()), err
}

// Every pod is reached from everywhere, in both families; the client's packets go
// through the node that its source address chooses.
func TestEverythingReachesEveryPod(t *testing.T) {
	lab := build(t, Config{
		Nodes: []string{"edge-1", "edge-2", "edge-3"},
		Pods:  []PodSpec{{Name: "shop/a", Node: "edge-1"}, {Name: "shop/b", Node: "edge-2"}, {Name: "shop/c", Node: "edge-2"}},
	})
	for _, p := range lab.Pods {
		answer(t, p)
	}
	check := func(namespace string, from, pod netip.Addr, want string) {
		t.Helper()
		name, caller, err := ask(namespace, from, pod)
		if err != nil || name != want || caller.Addr() != from {
			t.Errorf("%s: from %v to %v: pod %q saw %v, error %v", namespace, from, pod, name, caller, err)
		}
	}
	for _, p := range lab.Pods {
		for _, h := range append([]Host{lab.Control}, lab.Nodes[0].Host, lab.Nodes[1].Host, lab.Nodes[2].Host) {
			check(h.Namespace, h.IPv4, p.IPv4, p.Name)
			check(h.Namespace, h.IPv6, p.IPv6, p.Name)
		}
		for _, q := range lab.Pods {
			check(q.Namespace, q.IPv4, p.IPv4, p.Name)
			check(q.Namespace, q.IPv6, p.IPv6, p.Name)
		}
		for _, n := range lab.Nodes {
			for _, ends := range [][2]netip.Addr{{n.ClientSource4, p.IPv4}, {n.ClientSource6, p.IPv6}} {
				before := received(t, n)
				check(lab.Client.Namespace, ends[0], ends[1], p.Name)
				if got := received(t, n) - before; got < 4 {
					t.Errorf("%v to %s: %d packets came to %s, want a connection's", ends[0], p.Name, got, n.Name)
				}
			}
		}
	}
}

// received returns how many packets came to the node from the switch.
func received(t *testing.T, n Node) uint64 {
	t.Helper()
	s, err := openSite(n.Namespace)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	link, err := s.nl.LinkByName(uplink)
	if err != nil {
		t.Fatal(err)
	}
	return link.Attrs().Statistics.RxPackets
}

func TestDialerStartsInTheNamespace(t *testing.T) {
	lab := build(t, Config{Nodes: []string{"edge-1"}, Pods: []PodSpec{{Name: "a", Node: "edge-1"}}})
	answer(t, lab.Pods[0])
	conn, err := Dialer(lab.Control.Namespace)(t.Context(), "tcp", netip.AddrPortFrom(lab.Pods[0].IPv4, 80).String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if got := conn.LocalAddr().(*net.TCPAddr).IP.String(); got != lab.Control.IPv4.String() {
		t.Errorf("the connection comes from %s, want %s", got, lab.Control.IPv4)
	}
}

// run runs a shell script in the namespace and returns what it printed.
func run(t *testing.T, lab *Topology, namespace, script string) string {
	t.Helper()
	var out bytes.Buffer
	p, err := lab.Start(Spec{Name: "script", Namespace: namespace, Command: []string{"sh", "-c", script}, Stdout: &out})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := p.Wait(ctx); err != nil {
		t.Fatalf("%s: %v", script, err)
	}
	return strings.TrimSpace(out.String())
}

func TestProcessSeesItsOwnMachine(t *testing.T) {
	lab := build(t, Config{
		Nodes: []string{"edge-1", "edge-2"},
		Pods:  []PodSpec{{Name: "shop/a", Node: "edge-1"}},
	})
	one, two, pod := lab.Nodes[0].Namespace, lab.Nodes[1].Namespace, lab.Pods[0].Namespace
	if got := run(t, lab, one, "ls /sys/class/net | xargs"); got != "eth0 lo pod10" {
		t.Errorf("devices of %s are %q", one, got)
	}
	run(t, lab, one, "mkdir /sys/fs/bpf/weir")
	if got := run(t, lab, one, "ls /sys/fs/bpf | grep -v debug || true"); got != "weir" {
		t.Errorf("a later process of the node finds %q in its BPF file system", got)
	}
	if got := run(t, lab, two, "ls /sys/fs/bpf | grep -v debug || true"); got != "" {
		t.Errorf("another node finds %q in its BPF file system", got)
	}
	if got := run(t, lab, pod, "grep ^0:: /proc/self/cgroup; cat "+lab.CgroupOf(pod)+"/script/cgroup.procs | wc -l"); !strings.HasPrefix(
		got, "0::/weirtest-top-lab/edge-1/pod-shop-a/script\n") || strings.HasSuffix(got, "\n0") {
		t.Errorf("the pod's process tells its cgroup as %q", got)
	}
}

// A lab whose process is gone is taken away by the next; one that stands is left
// alone, and so are namespaces that only have a similar name.
func TestOnlyTheAbandonedIsTakenAway(t *testing.T) {
	lab := build(t, Config{Nodes: []string{"edge-1"}})
	if err := Remove(testPrefix); err == nil {
		t.Error("a lab that stands was removed")
	}
	if _, err := Build(Config{Prefix: testPrefix, Nodes: []string{"edge-1"}}); err == nil {
		t.Error("a second lab was built over one that stands")
	}
	foreign := testPrefix + "foreign"
	if err := makeNamespace(foreign); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = removeNamespace(foreign) }()
	lab.lock.Close() // as the kernel does when the process ends
	again, err := Build(Config{Prefix: testPrefix, Nodes: []string{"edge-2"}})
	if err != nil {
		t.Fatal(err)
	}
	lab.lock = again.lock // for the cleanup
	if _, err := os.Stat(filepath.Join(namedDir, lab.Nodes[0].Namespace)); err == nil {
		t.Errorf("namespace %s was left behind", lab.Nodes[0].Namespace)
	}
	if _, err := os.Stat(filepath.Join(namedDir, foreign)); err != nil {
		t.Errorf("a namespace of somebody else's: %v", err)
	}
}

func TestStopAndLog(t *testing.T) {
	lab := build(t, Config{Nodes: []string{"edge-1"}})
	log := filepath.Join(t.TempDir(), "log")
	start := func(script string) *Process {
		p, err := lab.Start(Spec{Name: "p", Namespace: lab.Nodes[0].Namespace, Command: []string{"sh", "-c", script}, Log: log})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	waitFor := func(text string) {
		for end := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
			if b, _ := os.ReadFile(log); strings.Contains(string(b), text) {
				return
			} else if time.Now().After(end) {
				t.Fatalf("the log is %q, want %q in it", b, text)
			}
		}
	}
	p := start("echo one; exec sleep 100")
	waitFor("one")
	if err := p.Stop(5 * time.Second); err != nil {
		t.Errorf("stop: %v", err)
	}
	p = start("trap '' TERM; echo two >&2; while :; do sleep 1; done")
	waitFor("two")
	if err := p.Stop(100 * time.Millisecond); err == nil {
		t.Error("stop of a process that ignores SIGTERM: no error")
	}
	p = start("exit 3")
	<-p.Done()
	if p.Err() == nil || p.Err().Error() != "exit status 3" {
		t.Errorf("exit status 3 is told as %v", p.Err())
	}
	if _, err := lab.Start(Spec{Name: "p", Namespace: testPrefix + "nowhere", Command: []string{"true"}}); err == nil {
		t.Error("start in an unknown namespace: no error")
	}
	if _, err := lab.Start(Spec{Name: "p", Namespace: lab.Nodes[0].Namespace, Command: []string{"/no/such"}}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("start of what does not exist: %v", err)
	}
	start("sleep 1000") // Close has to end it
}

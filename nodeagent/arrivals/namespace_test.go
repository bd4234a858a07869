// SPDX-License-Identifier: Apache-2.0

package arrivals

import (
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/edgeweir/weir/internal/testenv"
)

// namespace is a network namespace without a name, which ends with the test.
type namespace struct {
	t  *testing.T
	fd int
}

func newNamespace(t *testing.T) *namespace {
	t.Helper()
	n := &namespace{t: t}
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlock: the thread ends with the goroutine
		err := unix.Unshare(unix.CLONE_NEWNET)
		if err == nil {
			n.fd, err = unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatalf("new network namespace: %v", err)
	}
	t.Cleanup(func() { unix.Close(n.fd) })
	n.run("ip link set lo up")
	return n
}

// do runs f on a thread of its own in the namespace and waits.
func (n *namespace) do(f func()) {
	n.t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := unix.Setns(n.fd, unix.CLONE_NEWNET)
		if err == nil {
			f()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		n.t.Fatalf("enter network namespace: %v", err)
	}
}

// run runs commands, one a line, in the namespace and returns their output. Lines
// for ip or ipvsadm that follow each other are one batch: starting a program is
// slow on an emulated machine. "PEER" stands for the peer, where ip wants one.
func (n *namespace) run(commands string, peer ...*namespace) string {
	n.t.Helper()
	var out strings.Builder
	lines := strings.Split(strings.TrimSpace(strings.ReplaceAll(commands, "PEER", "/proc/self/fd/3")), "\n")
	for len(lines) > 0 && !n.t.Failed() {
		words := strings.Fields(lines[0])
		batch := map[string][]string{"ip": {"ip", "-batch", "-"}, "ipvsadm": {"ipvsadm", "-R"}}[words[0]]
		if batch == nil || slices.Contains(words, "-Ln") {
			out.WriteString(n.exec(words, "", peer))
			lines = lines[1:]
			continue
		}
		var input strings.Builder
		for len(lines) > 0 && strings.Fields(lines[0])[0] == words[0] {
			input.WriteString(strings.TrimPrefix(strings.TrimSpace(lines[0]), words[0]+" ") + "\n")
			lines = lines[1:]
		}
		out.WriteString(n.exec(batch, input.String(), peer))
	}
	if n.t.Failed() {
		n.t.FailNow()
	}
	return out.String()
}

// exec runs one program in the namespace.
func (n *namespace) exec(words []string, input string, files []*namespace) string {
	n.t.Helper()
	var out []byte
	n.do(func() {
		cmd := exec.Command(words[0], words[1:]...)
		cmd.Stdin = strings.NewReader(input)
		for _, f := range files {
			cmd.ExtraFiles = append(cmd.ExtraFiles, dupFile(n.t, f.fd))
		}
		var err error
		if out, err = cmd.CombinedOutput(); err != nil {
			n.t.Errorf("%v %s: %v: %s", words, input, err, out)
		}
	})
	return string(out)
}

// nft loads a ruleset in the namespace.
func (n *namespace) nft(rules string) {
	n.t.Helper()
	n.exec([]string{"nft", "-f", "-"}, rules, nil)
	if n.t.Failed() {
		n.t.FailNow()
	}
}

// bpffs mounts a bpf filesystem of the test's own and returns a folder on it.
func bpffs(t *testing.T) string {
	t.Helper()
	mount := t.TempDir()
	if err := unix.Mount("bpf", mount, "bpf", 0, ""); err != nil {
		t.Fatalf("mount bpffs: %v", err)
	}
	t.Cleanup(func() { unix.Unmount(mount, unix.MNT_DETACH) })
	return filepath.Join(mount, "weir")
}

// open opens a Counter in the namespace and closes it with the test.
func (n *namespace) open(options Options) *Counter {
	n.t.Helper()
	var c *Counter
	var err error
	if options.Logger == nil {
		options.Logger = slog.New(slog.NewTextHandler(testWriter{n.t}, nil))
	}
	n.do(func() { c, err = Open(options) })
	if err != nil {
		n.t.Fatalf("open: %+v", err)
	}
	n.t.Cleanup(func() { c.Close() })
	return c
}

// dupFile is a file for a descriptor that stays the caller's.
func dupFile(t *testing.T, fd int) *os.File {
	t.Helper()
	dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		t.Fatalf("dup: %v", err)
	}
	f := os.NewFile(uintptr(dup), "namespace")
	t.Cleanup(func() { f.Close() })
	return f
}

type testWriter struct{ t *testing.T }

func (w testWriter) Write(b []byte) (int, error) {
	w.t.Log(strings.TrimSpace(string(b)))
	return len(b), nil
}

// The test network: a node whose loopback bears the virtual addresses, and a
// client on a wire to it.
const (
	vip4, vip6       = "10.96.0.1", "fd00:96::1"
	node4, node6     = "192.0.2.1", "2001:db8::1"
	client4, client6 = "192.0.2.2", "2001:db8::2"
)

func newWire(t *testing.T) (node, client *namespace) {
	t.Helper()
	testenv.Require(t, testenv.Root, testenv.BTF)
	node, client = newNamespace(t), newNamespace(t)
	node.run(`
		ip link add wire type veth peer name wire netns PEER
		ip addr add `+vip4+`/32 dev lo
		ip addr add `+vip6+`/128 dev lo nodad
		ip addr add `+node4+`/24 dev wire
		ip addr add `+node6+`/64 dev wire nodad
		ip link set wire up`, client)
	client.run(`
		ip addr add ` + client4 + `/24 dev wire
		ip addr add ` + client6 + `/64 dev wire nodad
		ip link set wire up
		ip route add ` + vip4 + ` via ` + node4 + `
		ip route add ` + vip6 + ` via ` + node6)
	return node, client
}

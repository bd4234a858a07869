// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/edgeweir/weir/internal/testenv"
)

// A cgroup of the real kernel, held at a fifth of a CPU while a shell spins in it.
func TestRealCgroup(t *testing.T) {
	testenv.Require(t, testenv.Root, testenv.CgroupV2)
	const root = "/sys/fs/cgroup"
	dir := filepath.Join(root, fmt.Sprintf("weir-usage-test-%d", os.Getpid()))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.Remove(dir); err != nil {
			t.Error(err)
		}
	})
	for file, text := range map[string]string{"cpu.max": "20000 100000", "memory.max": "67108864"} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	spinIn(t, dir)
	meter, pod := New(Options{}), Pod{Name: "spinner", Cgroup: dir}
	sample(t, meter, pod)
	time.Sleep(2 * time.Second)
	s := sample(t, meter, pod)
	got := s.Pods["spinner"]
	expect(t, "missing", s.Missing, map[string]string{})
	expect(t, "capacity", got.Capacity, map[string]float64{CPU: 0.2, Memory: 64 << 20})
	if got.Used[CPU] < 0.1 || got.Used[CPU] > 0.3 {
		t.Errorf("cpu %v cores, want about the 0.2 that the group may use", got.Used[CPU])
	}
	if got.Used[Memory] <= 0 || got.Used[Memory] > 64<<20 {
		t.Errorf("memory %v bytes", got.Used[Memory])
	}
	if s.Node.Used[CPU] < got.Used[CPU]/2 {
		t.Errorf("the node used %v cores, its pod %v", s.Node.Used[CPU], got.Used[CPU])
	}
}

// The machine that the test runs on.
func TestRealNode(t *testing.T) {
	meter := New(Options{})
	sample(t, meter)
	deadline := time.Now().Add(300 * time.Millisecond)
	for time.Now().Before(deadline) { // one CPU works
		continue
	}
	s := sample(t, meter)
	if s.Node.Used[CPU] < 0.3 || s.Node.Used[CPU] > s.Node.Capacity[CPU]+0.5 {
		t.Errorf("the node used %v of %v cores", s.Node.Used[CPU], s.Node.Capacity[CPU])
	}
	if s.Node.Used[Memory] <= 0 || s.Node.Used[Memory] >= s.Node.Capacity[Memory] {
		t.Errorf("the node used %v of %v bytes", s.Node.Used[Memory], s.Node.Capacity[Memory])
	}
}

// spinIn runs a busy shell in the cgroup until the test ends.
func spinIn(t *testing.T, dir string) {
	t.Helper()
	group, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer group.Close()
	spinner := exec.Command("sh", "-c", "while :; do :; done")
	spinner.SysProcAttr = &syscall.SysProcAttr{
		UseCgroupFD: true,
		CgroupFD:    int(group.Fd()),
		Pdeathsig:   syscall.SIGKILL,
	}
	if err := spinner.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := spinner.Process.Kill(); err != nil {
			t.Error(err)
		}
		_ = spinner.Wait() // "signal: killed", as it should be
	})
}

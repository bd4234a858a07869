// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// cgroupMount is where the lab's processes see the unified hierarchy.
const cgroupMount = "/sys/fs/cgroup"

// CgroupOf returns the cgroup of the machine that the namespace stands for, as the
// lab's processes see it: the processes of a pod are in its pod's, which is in its
// node's.
func (l *Layout) CgroupOf(namespace string) string {
	root := filepath.Join(cgroupMount, labCgroup(l.Prefix))
	for _, p := range l.Pods {
		if p.Namespace == namespace {
			return filepath.Join(root, p.Node, strings.TrimPrefix(namespace, l.Prefix))
		}
	}
	return filepath.Join(root, strings.TrimPrefix(namespace, l.Prefix))
}

// here returns where this process finds a cgroup that the lab's processes see at
// that path.
func (t *Topology) here(cgroup string) string {
	return filepath.Join(t.state, "cgroup", strings.TrimPrefix(cgroup, cgroupMount))
}

// makeCgroups makes the lab's cgroup, and in it those of nodes, pods and hosts.
func (t *Topology) makeCgroups() error {
	dirs := []string{filepath.Join(t.state, "cgroup", labCgroup(t.Prefix))}
	for _, name := range t.namespaces() {
		dirs = append(dirs, t.here(t.CgroupOf(name)))
	}
	for _, dir := range dirs {
		if err := makeCgroup(dir); err != nil {
			return err
		}
	}
	for _, p := range t.Pods {
		if p.CPU == 0 {
			continue
		}
		if err := limitCPU(t.here(t.CgroupOf(p.Namespace)), p.CPU); err != nil {
			return fmt.Errorf("pod %s: %w", p.Name, err)
		}
	}
	return nil
}

// makeCgroup makes a cgroup and hands it the controllers that its parent has to
// give: all three on a machine of unified cgroups, none on one whose controllers
// are bound to version 1, where CPU time is counted all the same.
func makeCgroup(dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make cgroup: %w", err)
	}
	parent := filepath.Dir(dir)
	available, err := os.ReadFile(filepath.Join(parent, "cgroup.controllers"))
	if err != nil {
		return fmt.Errorf("make cgroup: %w", err)
	}
	for _, c := range []string{"cpu", "memory", "pids"} {
		if !slices.Contains(strings.Fields(string(available)), c) {
			continue
		}
		if err := os.WriteFile(filepath.Join(parent, "cgroup.subtree_control"), []byte("+"+c), 0); err != nil {
			return fmt.Errorf("hand controller %s to cgroup %s: %w", c, dir, err)
		}
	}
	return nil
}

const cpuPeriod = 100_000 // µs, the kernel's default for cpu.max

// limitCPU bounds the cgroup to so many cores.
func limitCPU(dir string, cores float64) error {
	quota := fmt.Sprintf("%d %d", int(cores*cpuPeriod), cpuPeriod)
	if err := os.WriteFile(filepath.Join(dir, "cpu.max"), []byte(quota), 0); err != nil {
		return fmt.Errorf("limit cgroup to %g cores: %w", cores, err)
	}
	return nil
}

// removeCgroups kills what runs in the cgroup and below, and removes them. It is
// no error when there is none.
func removeCgroups(dir string) error {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0); err != nil {
		return fmt.Errorf("kill cgroup %s: %w", dir, err)
	}
	var dirs []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			dirs = append(dirs, path)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("list cgroup %s: %w", dir, err)
	}
	slices.Reverse(dirs)
	for _, d := range dirs {
		if err := removeCgroup(d); err != nil {
			return err
		}
	}
	return nil
}

// removeCgroup removes one cgroup, waiting for killed processes to be gone.
func removeCgroup(dir string) error {
	const attempts, pause = 100, 20 * time.Millisecond
	var err error
	for range attempts {
		if err = os.Remove(dir); err == nil || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		time.Sleep(pause)
	}
	return fmt.Errorf("remove cgroup: %w", err)
}

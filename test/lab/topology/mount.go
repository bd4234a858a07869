// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// mount makes what the lab's processes will see: the unified cgroup hierarchy,
// wherever the machine has it, and one BPF file system per node. They are kept in
// the state folder, so that they outlive any single process.
func (t *Topology) mount() error {
	cgroup := filepath.Join(t.state, "cgroup")
	if err := mountAt(cgroup, "cgroup2"); err != nil {
		return err
	}
	for _, n := range t.Nodes {
		if err := mountAt(t.bpfDir(n.Namespace), "bpf"); err != nil {
			return err
		}
	}
	return t.makeCgroups()
}

func (t *Topology) bpfDir(namespace string) string { return filepath.Join(t.state, "bpf", namespace) }

func mountAt(dir, fstype string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("mount %s: %w", fstype, err)
	}
	if err := unix.Mount(fstype, dir, fstype, 0, ""); err != nil {
		return fmt.Errorf("mount %s at %s: %w", fstype, dir, err)
	}
	return nil
}

// enterMachine gives the calling thread the network namespace and a mount
// namespace in which /sys shows the former's devices, /sys/fs/cgroup is the
// unified hierarchy, and /sys/fs/bpf is the node's.
func (t *Topology) enterMachine(namespace string) error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("make a mount namespace: %w", err)
	}
	if err := enter(namespace); err != nil {
		return err
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("keep mounts private: %w", err)
	}
	if err := unix.Mount("sysfs", "/sys", "sysfs", 0, ""); err != nil {
		return fmt.Errorf("mount /sys of %s: %w", namespace, err)
	}
	binds := [][2]string{{filepath.Join(t.state, "cgroup"), cgroupMount}}
	if _, err := os.Stat(t.bpfDir(namespace)); err == nil {
		binds = append(binds, [2]string{t.bpfDir(namespace), "/sys/fs/bpf"})
	} else if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for _, b := range binds {
		if err := unix.Mount(b[0], b[1], "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("mount %s of %s: %w", b[1], namespace, err)
		}
	}
	return nil
}

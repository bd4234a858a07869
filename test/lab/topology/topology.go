// SPDX-License-Identifier: Apache-2.0

// Package topology builds a small edge cluster out of network namespaces of one
// kernel: nodes on a switch, pods behind their nodes, a control host, and an
// external client that can choose the node its traffic goes through. It starts
// processes there, each in a cgroup of its own and with the /sys and the BPF file
// system of its node, and takes all of it away again.
package topology

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Topology is a lab that stands.
type Topology struct {
	*Layout
	state   string // folder of the lab's mounts
	mu      sync.Mutex
	running map[*Process]bool
}

// Build lays out and makes a lab, after taking away what an earlier one of the
// same prefix left behind. It needs root.
func Build(cfg Config) (*Topology, error) {
	layout, err := Lay(cfg)
	if err != nil {
		return nil, err
	}
	if err := Remove(layout.Prefix); err != nil {
		return nil, err
	}
	t := &Topology{Layout: layout, state: stateDir(layout.Prefix), running: map[*Process]bool{}}
	err = (&builder{Layout: layout}).build()
	if err == nil {
		err = t.mount()
	}
	if err != nil {
		return nil, errors.Join(err, Remove(layout.Prefix))
	}
	return t, nil
}

// Close ends the processes of the lab and takes it away.
func (t *Topology) Close() error {
	t.mu.Lock()
	running := make([]*Process, 0, len(t.running))
	for p := range t.running {
		running = append(running, p)
	}
	t.mu.Unlock()
	for _, p := range running {
		p.kill()
	}
	return Remove(t.Prefix)
}

// Remove takes away the lab of that prefix, whoever built it: its processes, the
// cgroups, mounts and namespaces. It is no error when there is none.
func Remove(prefix string) error {
	if prefix == "" || strings.ContainsAny(prefix, "/*?[") {
		return fmt.Errorf("topology: %q can't be a lab's prefix", prefix)
	}
	state := stateDir(prefix)
	errs := []error{removeCgroups(filepath.Join(state, "cgroup", labCgroup(prefix)))}
	names, err := namedWith(prefix)
	errs = append(errs, err)
	for _, name := range names {
		errs = append(errs, removeNamespace(name))
	}
	mounts, _ := filepath.Glob(filepath.Join(state, "bpf", "*"))
	for _, m := range append(mounts, filepath.Join(state, "cgroup")) {
		if err := unix.Unmount(m, unix.MNT_DETACH); err != nil && err != unix.EINVAL && err != unix.ENOENT {
			errs = append(errs, fmt.Errorf("unmount %s: %w", m, err))
			continue
		}
		if err := os.Remove(m); err != nil && !os.IsNotExist(err) {
			errs = append(errs, err)
		}
	}
	for _, dir := range []string{filepath.Join(state, "bpf"), state} {
		if err := os.Remove(dir); err != nil && !os.IsNotExist(err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func stateDir(prefix string) string  { return filepath.Join("/run", labCgroup(prefix)) }
func labCgroup(prefix string) string { return strings.TrimSuffix(prefix, "-") + "-lab" }

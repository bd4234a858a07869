// SPDX-License-Identifier: Apache-2.0

// Package topology builds a small edge cluster out of network namespaces of one
// kernel: nodes on a switch, pods behind their nodes, a control host, and an
// external client that can choose the node its traffic goes through. It starts
// processes there, each in a cgroup of its own and with the /sys and the BPF file
// system of its node, and takes all of it away again.
package topology

import (
	"errors"
	"os"
	"sync"
)

// Topology is a lab that stands.
type Topology struct {
	*Layout
	state   string   // folder of the lab's mounts
	lock    *os.File // held as long as the lab stands
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
	lock, err := acquire(layout.Prefix)
	if err != nil {
		return nil, err
	}
	t := &Topology{Layout: layout, state: stateDir(layout.Prefix), lock: lock, running: map[*Process]bool{}}
	for _, step := range []func() error{
		func() error { return remove(layout.Prefix) },
		t.writeNames,
		(&builder{Layout: layout}).build,
		t.mount,
	} {
		if err := step(); err != nil {
			return nil, errors.Join(err, t.Close())
		}
	}
	return t, nil
}

// Close ends the processes of the lab and takes it away. A second call does
// nothing.
func (t *Topology) Close() error {
	if t.lock == nil {
		return nil
	}
	t.mu.Lock()
	running := make([]*Process, 0, len(t.running))
	for p := range t.running {
		running = append(running, p)
	}
	t.mu.Unlock()
	for _, p := range running {
		p.kill()
	}
	lock := t.lock
	t.lock = nil
	return errors.Join(remove(t.Prefix), release(lock, t.Prefix))
}

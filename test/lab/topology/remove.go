// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// A lab's state folder holds:
//
//	lock        locked by the process that the lab belongs to
//	namespaces  the names of its network namespaces, one a line
//	cgroup/     the unified cgroup hierarchy
//	bpf/NAME/   the BPF file system of a node, by its namespace
func stateDir(prefix string) string  { return filepath.Join("/run", labCgroup(prefix)) }
func labCgroup(prefix string) string { return strings.TrimSuffix(prefix, "-") + "-lab" }

// Remove takes away the lab of that prefix when the process that built it is
// gone: processes, cgroups, mounts and namespaces. It is no error when there is
// none.
func Remove(prefix string) error {
	if !plainName.MatchString(prefix) {
		return fmt.Errorf("topology: %q can't be a lab's prefix", prefix)
	}
	if _, err := os.Stat(stateDir(prefix)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	lock, err := acquire(prefix)
	if err != nil {
		return err
	}
	return errors.Join(remove(prefix), release(lock, prefix))
}

// acquire makes the state folder and locks it for this process.
func acquire(prefix string) (*os.File, error) {
	dir := stateDir(prefix)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("lock lab %s: %w", prefix, err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lock lab %s: %w", prefix, err)
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		lock.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("lab %s stands already, and its process runs", prefix)
		}
		return nil, fmt.Errorf("lock lab %s: %w", prefix, err)
	}
	return lock, nil
}

// release takes the emptied state folder away and unlocks it.
func release(lock *os.File, prefix string) error {
	dir := stateDir(prefix)
	return errors.Join(gone(os.Remove(filepath.Join(dir, "lock"))), gone(os.Remove(dir)), lock.Close())
}

// writeNames notes the names of the namespaces before they are made, so that
// exactly these are removed, by whomever it be.
func (t *Topology) writeNames() error {
	text := strings.Join(t.namespaces(), "\n") + "\n"
	if err := os.WriteFile(filepath.Join(t.state, "namespaces"), []byte(text), 0o644); err != nil {
		return fmt.Errorf("note the namespaces of the lab: %w", err)
	}
	return nil
}

// remove takes away all but the lock.
func remove(prefix string) error {
	state := stateDir(prefix)
	cgroups := filepath.Join(state, "cgroup")
	errs := []error{removeCgroups(filepath.Join(cgroups, labCgroup(prefix)))}
	names, err := os.ReadFile(filepath.Join(state, "namespaces"))
	errs = append(errs, gone(err))
	for _, name := range strings.Fields(string(names)) {
		errs = append(errs, removeNamespace(name))
	}
	nodes, _ := filepath.Glob(filepath.Join(state, "bpf", "*"))
	for _, dir := range append(nodes, cgroups) {
		// EINVAL: a folder, but nothing is mounted.
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("unmount %s: %w", dir, err))
			continue
		}
		errs = append(errs, gone(os.Remove(dir)))
	}
	for _, name := range []string{"bpf", "namespaces"} {
		errs = append(errs, gone(os.Remove(filepath.Join(state, name))))
	}
	return errors.Join(errs...)
}

// gone forgives that something was not there to be removed.
func gone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// SPDX-License-Identifier: Apache-2.0

package arrivals

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/edgeweir/weir/bpf"
)

// layout is the version of the maps' keys and values. It changes with them.
const layout = "v1"

// maxLayouts bounds the folders tried: v1, then v1-1 and on, where one is taken
// by maps of another shape.
const maxLayouts = 10

// store is the pinned maps of one node.
type store struct {
	dir  string     // as in Options
	path string     // the folder of this layout
	busy sync.Mutex // held with lock, which does not keep out this process
	lock *os.File
	log  *slog.Logger
	maps bpf.ArrivalsMaps
	all  map[string]*ebpf.Map // the same by name
}

// openStore makes the folder, which must lie on a bpf filesystem.
func openStore(options Options) (*store, error) {
	if err := checkFilesystem(options.Dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(options.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make folder for pins: %w", err)
	}
	lock, err := os.Open(options.Dir)
	if err != nil {
		return nil, fmt.Errorf("open folder for pins: %w", err)
	}
	return &store{dir: options.Dir, lock: lock, log: options.Logger}, nil
}

// checkFilesystem looks at the folder, or the nearest above it that exists.
func checkFilesystem(dir string) error {
	var st unix.Statfs_t
	err := unix.Statfs(dir, &st)
	if errors.Is(err, unix.ENOENT) && dir != filepath.Dir(dir) {
		return checkFilesystem(filepath.Dir(dir))
	}
	if err != nil {
		return fmt.Errorf("statfs %s: %w", dir, err)
	}
	if uint32(st.Type) != unix.BPF_FS_MAGIC {
		return fmt.Errorf("%s is not on a bpf filesystem: mount one there (in a pod, the host's /sys/fs/bpf with HostToContainer propagation)", dir)
	}
	return nil
}

// exclusive keeps other agents off the folder while f runs, such as a
// predecessor that has not ended yet.
func (s *store) exclusive(f func() error) error {
	s.busy.Lock()
	defer s.busy.Unlock()
	if err := unix.Flock(int(s.lock.Fd()), unix.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", s.dir, err)
	}
	defer unix.Flock(int(s.lock.Fd()), unix.LOCK_UN)
	return f()
}

func (s *store) close() error {
	for _, m := range s.all {
		m.Close()
	}
	return s.lock.Close()
}

// errShape: a pinned map has other keys, values or type than this layout.
var errShape = errors.New("pinned map has another shape")

// openMaps takes over the pinned maps or makes them, in the first folder whose
// maps have the right shape. Others are left as they are.
func (s *store) openMaps(options Options) error {
	spec, err := bpf.LoadArrivals()
	if err != nil {
		return fmt.Errorf("read eBPF object: %w", err)
	}
	resize(spec.Maps["flows"], options.MaxFlows)
	resize(spec.Maps["services"], options.MaxServices)
	resize(spec.Maps["arrivals"], options.MaxArrivals)
	for i := range maxLayouts {
		s.path = filepath.Join(s.dir, layout)
		if i > 0 {
			s.path = fmt.Sprintf("%s-%d", s.path, i)
		}
		err = s.openFolder(spec.Maps)
		if err == nil {
			return s.claim()
		}
		if !errors.Is(err, errShape) {
			return err
		}
		s.log.Warn("pinned maps of another shape are left alone, counting starts anew", "dir", s.path, "error", err)
	}
	return fmt.Errorf("no folder left in %s: %w", s.dir, err)
}

// claim ties the folder to the current network namespace: links that are pinned
// there count nowhere else, however right they look.
func (s *store) claim() error {
	var st unix.Stat_t
	if err := unix.Stat("/proc/thread-self/ns/net", &st); err != nil {
		return fmt.Errorf("network namespace: %w", err)
	}
	for _, inode := range marks(s.path, "netns") {
		if inode != int(st.Ino) {
			return fmt.Errorf("%s belongs to network namespace %d, this is %d: give each its own folder, or clean up first", s.path, inode, st.Ino)
		}
	}
	return s.mark("netns", int(st.Ino))
}

func resize(spec *ebpf.MapSpec, entries uint32) {
	if entries != 0 {
		spec.MaxEntries = entries
	}
}

func (s *store) openFolder(specs map[string]*ebpf.MapSpec) error {
	if err := os.MkdirAll(s.path, 0o700); err != nil {
		return fmt.Errorf("make folder for pins: %w", err)
	}
	all := make(map[string]*ebpf.Map, len(specs))
	release := func() {
		for _, m := range all {
			m.Close()
		}
	}
	// First look whether all fit, then make what is missing: nothing is added to
	// a folder that is not ours to use.
	for name, spec := range specs {
		m, err := s.loadPinned(name, spec)
		if err != nil {
			release()
			return err
		}
		if m != nil {
			all[name] = m
		}
	}
	for name, spec := range specs {
		if all[name] != nil {
			continue
		}
		m, err := s.makePinned(name, spec)
		if err != nil {
			release()
			return err
		}
		all[name] = m
	}
	s.all = all
	s.maps = bpf.ArrivalsMaps{
		Arrivals: all["arrivals"], Flows: all["flows"], Names: all["names"], Origins: all["origins"],
		Services: all["services"], Settings: all["settings"], Stats: all["stats"],
	}
	return nil
}

// loadPinned returns nil where nothing is pinned under the name.
func (s *store) loadPinned(name string, spec *ebpf.MapSpec) (*ebpf.Map, error) {
	path := filepath.Join(s.path, name)
	m, err := ebpf.LoadPinnedMap(path, nil)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("load pinned map %s: %w", path, err)
	}
	if m.Type() != spec.Type || m.KeySize() != spec.KeySize || m.ValueSize() != spec.ValueSize || m.Flags() != spec.Flags {
		m.Close()
		return nil, fmt.Errorf("%s: %w: %s, key %d, value %d bytes, flags %#x; want %s, %d, %d, %#x", path, errShape,
			m.Type(), m.KeySize(), m.ValueSize(), m.Flags(), spec.Type, spec.KeySize, spec.ValueSize, spec.Flags)
	}
	if m.MaxEntries() != spec.MaxEntries {
		s.log.Warn("pinned map keeps its size until it is cleaned up", "map", path, "entries", m.MaxEntries(), "wanted", spec.MaxEntries)
		spec.MaxEntries = m.MaxEntries()
	}
	return m, nil
}

func (s *store) makePinned(name string, spec *ebpf.MapSpec) (*ebpf.Map, error) {
	m, err := ebpf.NewMap(spec)
	if err != nil {
		return nil, fmt.Errorf("make map %s of %d entries: %w", name, spec.MaxEntries, err)
	}
	if err := m.Pin(filepath.Join(s.path, name)); err != nil {
		m.Close()
		return nil, fmt.Errorf("pin map %s: %w", name, err)
	}
	return m, nil
}

// prepare makes the overflow row and sets the lifetimes of flows; with a timeout
// of zero, UDP's only in new maps.
func (s *store) prepare(udpTimeout time.Duration) error {
	if err := s.addRow(bpf.ArrivalsArrivalKey{}); err != nil {
		return err
	}
	if udpTimeout != 0 {
		return s.setUDPTimeout(udpTimeout)
	}
	var set bpf.ArrivalsSettings
	if err := s.maps.Settings.Lookup(uint32(0), &set); err != nil {
		return fmt.Errorf("map settings: %w", err)
	}
	if set.UdpTimeout != 0 {
		return nil
	}
	return s.setUDPTimeout(defaultUDPTimeout)
}

// handshakeTimeout is how long the same initial sequence number on a tuple means
// the same SYN: TCP's longest retransmission timeout (include/net/tcp.h,
// TCP_RTO_MAX), SCTP's being shorter. A device that starts again with its first
// port and number is then a new task.
const handshakeTimeout = 120 * time.Second

func (s *store) setUDPTimeout(timeout time.Duration) error {
	var tick unix.Timespec // the coarse clock advances once a tick
	if err := unix.ClockGetres(unix.CLOCK_MONOTONIC_COARSE, &tick); err != nil {
		return fmt.Errorf("length of the kernel's tick: %w", err)
	}
	set := bpf.ArrivalsSettings{UdpTimeout: ticks(timeout, tick), HandshakeTimeout: ticks(handshakeTimeout, tick)}
	if err := s.maps.Settings.Put(uint32(0), set); err != nil {
		return fmt.Errorf("map settings: %w", err)
	}
	return nil
}

// ticks rounds to the nearest, and up to one.
func ticks(d time.Duration, tick unix.Timespec) uint64 {
	return uint64(max(1, (int64(d)+tick.Nano()/2)/tick.Nano()))
}

// addRow makes a row of zero, unless it is there.
func (s *store) addRow(key bpf.ArrivalsArrivalKey) error {
	none := make([]bpf.ArrivalsArrival, ebpf.MustPossibleCPU())
	err := s.maps.Arrivals.Update(key, none, ebpf.UpdateNoExist)
	if err != nil && !errors.Is(err, ebpf.ErrKeyExist) {
		return fmt.Errorf("map arrivals: add row: %w", full(s.maps.Arrivals, err))
	}
	return nil
}

// full says so where E2BIG means that the map has no room.
func full(m *ebpf.Map, err error) error {
	if errors.Is(err, unix.E2BIG) || errors.Is(err, unix.ENOSPC) {
		return fmt.Errorf("all %d entries are taken: %w", m.MaxEntries(), err)
	}
	return err
}

// loadPrograms loads an object's programs over the pinned maps.
func (s *store) loadPrograms(spec *ebpf.CollectionSpec, to any) error {
	for name, m := range s.all {
		spec.Maps[name].MaxEntries = m.MaxEntries()
	}
	if err := spec.LoadAndAssign(to, &ebpf.CollectionOptions{MapReplacements: s.all}); err != nil {
		return fmt.Errorf("load programs: %w", err)
	}
	return nil
}

// SPDX-License-Identifier: Apache-2.0

package arrivals

import (
	"errors"
	"fmt"
	"net"
	"path"
	"strings"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/edgeweir/weir/bpf"
)

// deviceHook attaches the tc program to one device, or finds it attached. done
// says that it is one that was there.
type deviceHook interface {
	kind() Attachment
	attach(device net.Interface) error
	forget(alive map[int]bool) error // drops what belonged to devices that are gone
	close() error
}

// devices is the tc program at the ingress of devices.
type devices struct {
	deviceHook
	patterns []string
	program  *ebpf.Program
	names    []string
}

func (d *devices) where() []string { return d.names }

// attachDevices attaches to all devices that the options name.
func attachDevices(options Options, s *store, hook func(*store, *ebpf.Program) (deviceHook, error)) (attachment, error) {
	spec, err := bpf.LoadArrivalsTC()
	if err != nil {
		return nil, fmt.Errorf("read eBPF object: %w", err)
	}
	var programs bpf.ArrivalsTCPrograms
	if err := s.loadPrograms(spec, &programs); err != nil {
		return nil, err
	}
	d := &devices{patterns: options.Interfaces, program: programs.ArrivalsTc}
	d.deviceHook, err = hook(s, d.program)
	if err != nil {
		return nil, errors.Join(err, d.program.Close())
	}
	if err := d.rescan(); err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

// rescan attaches to devices that came and forgets those that went. A device that
// vanishes meanwhile is none.
func (d *devices) rescan() error {
	all, err := net.Interfaces()
	if err != nil {
		return fmt.Errorf("list devices: %w", err)
	}
	var names []string
	var errs []error
	alive := map[int]bool{}
	for _, device := range all {
		alive[device.Index] = true
		if !d.wants(device) {
			continue
		}
		err := d.attach(device)
		if errors.Is(err, unix.ENODEV) {
			continue
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("device %s: %w", device.Name, err))
			continue
		}
		names = append(names, device.Name)
	}
	d.names = names
	return errors.Join(append(errs, d.forget(alive))...)
}

func (d *devices) wants(device net.Interface) bool {
	if len(d.patterns) == 0 {
		return device.Flags&net.FlagLoopback == 0
	}
	for _, pattern := range d.patterns {
		if ok, _ := path.Match(pattern, device.Name); ok {
			return true
		}
	}
	return false
}

func (d *devices) close() error {
	return errors.Join(d.deviceHook.close(), d.program.Close())
}

// indexOf reads the number in a pin's name, such as tcx_12.
func indexOf(name string) int {
	var index int
	_, number, _ := strings.Cut(name, "_")
	if _, err := fmt.Sscanf(number, "%d", &index); err != nil {
		return 0
	}
	return index
}

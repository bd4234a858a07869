// SPDX-License-Identifier: Apache-2.0

package arrivals

import (
	"errors"
	"fmt"
	"net"
	"path"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/edgeweir/weir/bpf"
)

// deviceHook is how the tc program comes to a device.
type deviceHook interface {
	kind() Attachment
	attach(device net.Interface) error // or leaves what is attached already
	forget(alive map[int]bool) error   // drops what belonged to devices that are gone
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
func attachDevices(options Options, s *store, spec *ebpf.CollectionSpec, hook func(*store, *ebpf.Program) (deviceHook, error)) (attachment, error) {
	var programs bpf.ArrivalsTCPrograms
	if err := s.loadPrograms(spec, &programs); err != nil {
		return nil, err
	}
	d := &devices{patterns: options.Interfaces, program: programs.ArrivalsTc}
	var err error
	if d.deviceHook, err = hook(s, d.program); err != nil {
		return nil, errors.Join(err, d.program.Close())
	}
	if err := d.rescan(); err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

// rescan forgets devices that went and attaches to those that came. A device that
// vanishes meanwhile is none.
func (d *devices) rescan() error {
	all, err := net.Interfaces()
	if err != nil {
		return fmt.Errorf("list devices: %w", err)
	}
	alive := map[int]bool{}
	for _, device := range all {
		alive[device.Index] = true
	}
	errs := []error{d.forget(alive)}
	d.names = nil
	for _, device := range all {
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
		d.names = append(d.names, device.Name)
	}
	return errors.Join(errs...)
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

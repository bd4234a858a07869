// SPDX-License-Identifier: Apache-2.0

package arrivals

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

// tcxLinks are links at devices' ingress, pinned as tcx_IFINDEX.
type tcxLinks struct {
	store   *store
	program *ebpf.Program
	links   map[int]link.Link // by index of the device
}

func (*tcxLinks) kind() Attachment { return TCX }

// newTCX takes over a predecessor's links. tcx is there from Linux 6.6.
func newTCX(s *store, program *ebpf.Program) (deviceHook, error) {
	if err := haveTCX(program); err != nil {
		return nil, err
	}
	before, err := s.pinnedLinks(TCX)
	if err != nil {
		return nil, err
	}
	t := &tcxLinks{store: s, program: program, links: map[int]link.Link{}}
	for name, l := range before.links {
		t.links[numberOf(name)] = l
	}
	return t, nil
}

// haveTCX tries a link at the loopback, which it lets go at once.
func haveTCX(program *ebpf.Program) error {
	loopback, err := net.InterfaceByName("lo")
	if err != nil {
		return fmt.Errorf("loopback device: %w", err)
	}
	l, err := link.AttachTCX(link.TCXOptions{Interface: loopback.Index, Program: program, Attach: ebpf.AttachTCXIngress})
	if err != nil {
		return fmt.Errorf("tcx: %w", err)
	}
	return l.Close()
}

// attach makes a link, or gives the one that is there the newer program, which
// the kernel does in one step.
func (t *tcxLinks) attach(device net.Interface) error {
	if l, ok := t.links[device.Index]; ok {
		return t.renew(l)
	}
	l, err := link.AttachTCX(link.TCXOptions{Interface: device.Index, Program: t.program, Attach: ebpf.AttachTCXIngress})
	if err != nil {
		return fmt.Errorf("tcx: %w", err)
	}
	name := filepath.Join(t.store.path, fmt.Sprintf("%s_%d", TCX, device.Index))
	if err := l.Pin(name); err != nil {
		return errors.Join(fmt.Errorf("pin link %s: %w", name, err), l.Close())
	}
	t.links[device.Index] = l
	return nil
}

func (t *tcxLinks) renew(l link.Link) error {
	info, err := l.Info()
	if err != nil {
		return fmt.Errorf("tcx: link info: %w", err)
	}
	if sameProgram(info.Program, t.program) {
		return nil
	}
	if err := l.Update(t.program); err != nil {
		return fmt.Errorf("tcx: renew program: %w", err)
	}
	return nil
}

// forget removes the pins of devices that are gone, also where another device
// has their index now: the kernel has cut such a link off.
func (t *tcxLinks) forget(map[int]bool) error {
	var errs []error
	for index, l := range t.links {
		info, err := l.Info()
		if err == nil && info.TCX() != nil && int(info.TCX().Ifindex) == index {
			continue
		}
		errs = append(errs, l.Unpin(), l.Close())
		delete(t.links, index)
	}
	return errors.Join(errs...)
}

func (t *tcxLinks) close() error {
	var errs []error
	for _, l := range t.links {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}

// SPDX-License-Identifier: Apache-2.0

package arrivals

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/features"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/edgeweir/weir/bpf"
)

// hook is one place of the netfilter links. IPVS takes packets at LOCAL_IN with
// priority 98 and at LOCAL_OUT with −99 (net/netfilter/ipvs/ip_vs_core.c), after
// destination NAT at −100.
type hook struct {
	name     string
	family   link.NetfilterProtocolFamily
	hook     link.NetfilterInetHook
	priority int32
}

var hooks = []hook{
	{"in4", link.NetfilterProtoIPv4, link.NetfilterInetLocalIn, 97},
	{"in6", link.NetfilterProtoIPv6, link.NetfilterInetLocalIn, 97},
	{"out4", link.NetfilterProtoIPv4, link.NetfilterInetLocalOut, -101},
	{"out6", link.NetfilterProtoIPv6, link.NetfilterInetLocalOut, -101},
}

// maxStepsDown is how far below its priority a link may go where others have
// taken it: a link must have one to itself. The next hooks of the kernel's own
// are 47 and 49 away.
const maxStepsDown = 32

// netfilterLinks are the four links, pinned as netfilter_HOOK_PRIORITY.
type netfilterLinks struct {
	places []string
}

func (*netfilterLinks) kind() Attachment  { return Netfilter }
func (n *netfilterLinks) where() []string { return n.places }
func (*netfilterLinks) rescan() error     { return nil }
func (*netfilterLinks) close() error      { return nil }

// attachNetfilter keeps a predecessor's links where they run the same program
// over the same maps. Else it attaches beside them first and removes them then,
// since the program of such a link can't be exchanged.
func attachNetfilter(s *store, spec *ebpf.CollectionSpec) (attachment, error) {
	if err := haveNetfilter(); err != nil {
		return nil, err
	}
	var programs bpf.ArrivalsPrograms
	if err := s.loadPrograms(spec, &programs); err != nil {
		return nil, err
	}
	defer programs.Close()
	before, err := s.pinnedLinks(Netfilter)
	if err != nil {
		return nil, err
	}
	defer before.close()

	links := &netfilterLinks{}
	var made []link.Link
	for _, h := range hooks {
		program := programs.ArrivalsIn
		if h.hook == link.NetfilterInetLocalOut {
			program = programs.ArrivalsOut
		}
		if name, ok := before.keep(h.name, program); ok {
			links.places = append(links.places, name)
			continue
		}
		l, name, err := h.attach(program, s.path)
		if err != nil {
			for _, l := range made {
				err = errors.Join(err, l.Unpin(), l.Close())
			}
			return nil, err
		}
		defer l.Close()
		made = append(made, l)
		links.places = append(links.places, name)
	}
	return links, before.removeOthers(s.log)
}

// haveNetfilter returns ebpf.ErrNotSupported where the kernel has no netfilter
// programs, or no BTF to fit them by.
func haveNetfilter() error {
	if err := features.HaveProgramType(ebpf.Netfilter); err != nil {
		return fmt.Errorf("netfilter programs: %w", err)
	}
	if _, err := btf.LoadKernelSpec(); err != nil {
		return fmt.Errorf("kernel BTF: %w: %w", ebpf.ErrNotSupported, err)
	}
	return nil
}

// attach pins the new link under its place and priority, the first that is free.
func (h hook) attach(program *ebpf.Program, dir string) (link.Link, string, error) {
	var err error
	for priority := h.priority; priority > h.priority-maxStepsDown; priority-- {
		var l link.Link
		l, err = link.AttachNetfilter(link.NetfilterOptions{
			Program: program, ProtocolFamily: h.family, Hook: h.hook, Priority: priority,
		})
		if errors.Is(err, unix.EBUSY) {
			continue
		}
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EOPNOTSUPP) {
			err = fmt.Errorf("%w: %w", ebpf.ErrNotSupported, err)
		}
		if err != nil {
			break
		}
		name := fmt.Sprintf("%s_%s_%d", Netfilter, h.name, priority)
		if err := l.Pin(filepath.Join(dir, name)); err != nil {
			return nil, "", errors.Join(fmt.Errorf("pin link %s: %w", name, err), l.Close())
		}
		return l, name, nil
	}
	return nil, "", fmt.Errorf("link %s: %w", h.name, err)
}

// SPDX-License-Identifier: Apache-2.0

package arrivals

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/cilium/ebpf"

	"github.com/edgeweir/weir/bpf"
)

// Attachment is a way of counting.
type Attachment string

// The ways of counting, the best first. Netfilter counts exactly the packets that
// IPVS balances. TCX and Clsact miss clients in the node's own network namespace.
// None leaves the counting to IPVS's own service counters.
const (
	Netfilter Attachment = "netfilter"
	TCX       Attachment = "tcx"
	Clsact    Attachment = "clsact"
	None      Attachment = "none"
)

const attachAuto = "auto"

var ladders = map[string][]Attachment{
	attachAuto:        {Netfilter, TCX, Clsact, None},
	string(Netfilter): {Netfilter},
	string(TCX):       {TCX},
	string(Clsact):    {Clsact},
	string(None):      {None},
}

// SeesLocal says whether clients in the node's own network namespace are counted.
func (a Attachment) SeesLocal() bool { return a == Netfilter }

// attachment is one way of counting, at work.
type attachment interface {
	kind() Attachment
	where() []string // for the log: hooks or devices
	rescan() error   // attaches to devices that came since
	close() error    // lets go; what is pinned goes on counting
}

// attach walks down the ladder, and then removes what a predecessor had attached
// in another way: until then both count, and flows admits each task once.
func attach(options Options, s *store) (attachment, error) {
	at, err := descend(ladders[options.Attach], s.log, func(kind Attachment) (attachment, error) {
		return attachAs(kind, options, s)
	})
	if err != nil {
		return nil, err
	}
	return at, s.dropLinks(at.kind())
}

// descend takes the first way that the kernel supports. Any other fault is an
// error: a way that should work must not be given up in silence.
func descend(ladder []Attachment, log *slog.Logger, try func(Attachment) (attachment, error)) (attachment, error) {
	for i, kind := range ladder {
		at, err := try(kind)
		if err == nil {
			return at, nil
		}
		if i == len(ladder)-1 || !errors.Is(err, ebpf.ErrNotSupported) {
			return nil, fmt.Errorf("attach by %s: %w", kind, err)
		}
		log.Warn("way of counting is missing in this kernel", "attachment", kind, "error", err)
	}
	return unattached{}, nil
}

func attachAs(kind Attachment, options Options, s *store) (attachment, error) {
	if kind == None {
		return unattached{}, nil
	}
	load := bpf.LoadArrivalsTC
	if kind == Netfilter {
		load = bpf.LoadArrivals
	}
	spec, err := load()
	if err != nil {
		return nil, fmt.Errorf("read eBPF object: %w", err)
	}
	return attachSpec(kind, options, s, spec)
}

func attachSpec(kind Attachment, options Options, s *store, spec *ebpf.CollectionSpec) (attachment, error) {
	switch kind {
	case Netfilter:
		return attachNetfilter(s, spec)
	case TCX:
		return attachDevices(options, s, spec, newTCX)
	default:
		return attachDevices(options, s, spec, newClsact)
	}
}

// unattached: nothing is counted here, IPVS's own counters must do.
type unattached struct{}

func (unattached) kind() Attachment { return None }
func (unattached) where() []string  { return nil }
func (unattached) rescan() error    { return nil }
func (unattached) close() error     { return nil }

// sameProgram says whether the program with the id is p or runs the same
// instructions over the same maps, so that it need not be replaced. Where the
// kernel lets an agent without CAP_SYS_ADMIN not look, it says no: a replacement
// loses nothing.
func sameProgram(id ebpf.ProgramID, p *ebpf.Program) bool {
	tag, maps, self := identity(p)
	if self == id {
		return true
	}
	other, err := ebpf.NewProgramFromID(id)
	if err != nil {
		return false
	}
	defer other.Close()
	otherTag, otherMaps, _ := identity(other)
	return tag != "" && tag == otherTag && slices.Equal(maps, otherMaps)
}

// identity is the hash of a program's instructions, in which the kernel leaves
// out which maps they use, the ids of these maps, and the program's own id.
func identity(p *ebpf.Program) (tag string, maps []ebpf.MapID, self ebpf.ProgramID) {
	info, err := p.Info()
	if err != nil {
		return "", nil, 0
	}
	maps, _ = info.MapIDs()
	self, _ = info.ID()
	return info.Tag, maps, self
}

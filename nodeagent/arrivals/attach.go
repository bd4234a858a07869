// SPDX-License-Identifier: Apache-2.0

package arrivals

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cilium/ebpf"
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
	ladder := ladders[options.Attach]
	for _, kind := range ladder {
		at, err := attachAs(kind, options, s)
		if err == nil {
			return at, s.dropLinks(at.kind())
		}
		if len(ladder) == 1 || !errors.Is(err, ebpf.ErrNotSupported) {
			return nil, fmt.Errorf("attach by %s: %w", kind, err)
		}
		s.log.Warn("way of counting is missing in this kernel", "attachment", kind, "error", err)
	}
	return nil, errors.New("attach: no way left")
}

func attachAs(kind Attachment, options Options, s *store) (attachment, error) {
	switch kind {
	case Netfilter:
		return attachNetfilter(s)
	case TCX:
		return attachDevices(options, s, newTCX)
	case Clsact:
		return attachDevices(options, s, newClsact)
	default:
		return unattached{}, nil
	}
}

// unattached: nothing is counted here, IPVS's own counters must do.
type unattached struct{}

func (unattached) kind() Attachment { return None }
func (unattached) where() []string  { return nil }
func (unattached) rescan() error    { return nil }
func (unattached) close() error     { return nil }

// sameProgram says whether the program with the id runs the same instructions
// over the same maps as p, so that it need not be replaced.
func sameProgram(id ebpf.ProgramID, p *ebpf.Program) (bool, error) {
	old, err := ebpf.NewProgramFromID(id)
	if err != nil {
		return false, fmt.Errorf("program %d: %w", id, err)
	}
	defer old.Close()
	oldTag, oldMaps, err := identity(old)
	if err != nil {
		return false, err
	}
	tag, maps, err := identity(p)
	if err != nil {
		return false, err
	}
	return tag == oldTag && slices.Equal(maps, oldMaps), nil
}

// identity is the hash of a program's instructions, in which the kernel leaves
// out which maps they use, and the ids of these maps.
func identity(p *ebpf.Program) (string, []ebpf.MapID, error) {
	info, err := p.Info()
	if err != nil {
		return "", nil, fmt.Errorf("program %s: info: %w", p, err)
	}
	maps, ok := info.MapIDs()
	if !ok {
		return "", nil, fmt.Errorf("program %s: the kernel gives no map ids", p)
	}
	return info.Tag, maps, nil
}

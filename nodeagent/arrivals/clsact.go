// SPDX-License-Identifier: Apache-2.0

package arrivals

import (
	"errors"
	"fmt"
	"net"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// The filter that is ours is known by name and handle, at the first priority so
// that no other filter ends the walk before it. It itself lets the walk go on.
const (
	filterName     = "weir_arrivals"
	filterHandle   = 0x77656972 // "weir"
	filterPriority = 1
)

// clsactFilters are filters in devices' clsact queueing discipline. They live as
// long as the device, without a pin; empty folders mark where one is ours
// (clsact_IFINDEX) and where the discipline is, too (qdisc_IFINDEX).
type clsactFilters struct {
	store   *store
	program *ebpf.Program
}

func newClsact(s *store, program *ebpf.Program) (deviceHook, error) {
	return &clsactFilters{store: s, program: program}, nil
}

func (*clsactFilters) kind() Attachment { return Clsact }
func (*clsactFilters) close() error     { return nil }

func clsactQdisc(index int) netlink.Qdisc {
	return &netlink.GenericQdisc{
		QdiscAttrs: netlink.QdiscAttrs{LinkIndex: index, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT},
		QdiscType:  "clsact",
	}
}

func (c *clsactFilters) filter(index int) *netlink.BpfFilter {
	return &netlink.BpfFilter{
		FilterAttrs: netlink.FilterAttrs{
			LinkIndex: index, Parent: netlink.HANDLE_MIN_INGRESS,
			Handle: filterHandle, Protocol: unix.ETH_P_ALL, Priority: filterPriority,
		},
		Fd: c.program.FD(), Name: filterName, DirectAction: true,
	}
}

// attach adds the discipline where it is missing, and adds the filter or gives
// it the newer program, which the kernel does in one step.
func (c *clsactFilters) attach(device net.Interface) error {
	present, err := ourFilter(device.Index)
	if err != nil {
		return err
	}
	if present != nil && sameProgram(ebpf.ProgramID(present.Id), c.program) {
		return nil
	}
	if err := c.addQdisc(device.Index); err != nil {
		return fmt.Errorf("qdisc clsact: %w", err)
	}
	if err := c.store.mark(string(Clsact), device.Index); err != nil {
		return err
	}
	if err := netlink.FilterReplace(c.filter(device.Index)); err != nil {
		return fmt.Errorf("filter %s: %w", filterName, unsupported(err))
	}
	return nil
}

func (c *clsactFilters) addQdisc(index int) error {
	err := netlink.QdiscAdd(clsactQdisc(index))
	if errors.Is(err, unix.EEXIST) {
		return nil
	}
	if err != nil {
		return unsupported(err)
	}
	return c.store.mark("qdisc", index)
}

// unsupported marks what the kernel answers where it has no such qdisc or filter.
func unsupported(err error) error {
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EOPNOTSUPP) {
		return fmt.Errorf("%w: %w", ebpf.ErrNotSupported, err)
	}
	return err
}

// forget removes the marks of devices that are gone.
func (c *clsactFilters) forget(alive map[int]bool) error {
	var errs []error
	for _, kind := range []string{string(Clsact), "qdisc"} {
		for _, index := range marks(c.store.path, kind) {
			if !alive[index] {
				errs = append(errs, unmark(c.store.path, kind, index))
			}
		}
	}
	return errors.Join(errs...)
}

// ourFilter returns nil where a device has none.
func ourFilter(index int) (*netlink.BpfFilter, error) {
	device := &netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: index}}
	filters, err := netlink.FilterList(device, netlink.HANDLE_MIN_INGRESS)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
		return nil, nil // no discipline to hold a filter
	}
	if err != nil {
		return nil, fmt.Errorf("list filters: %w", err)
	}
	for _, f := range filters {
		if ours, ok := f.(*netlink.BpfFilter); ok && ours.Handle == filterHandle && ours.Name == filterName {
			return ours, nil
		}
	}
	return nil, nil
}

// dropFilters removes the filters that a folder's marks tell of, and disciplines
// that were made for them where nothing else uses them; marksOnly leaves what is
// attached to the present layout.
func dropFilters(folder string, marksOnly bool) error {
	var errs []error
	for _, index := range marks(folder, string(Clsact)) {
		if !marksOnly {
			errs = append(errs, dropFilter(index, isMarked(folder, "qdisc", index)))
		}
		errs = append(errs, unmark(folder, string(Clsact), index))
	}
	for _, index := range marks(folder, "qdisc") {
		errs = append(errs, unmark(folder, "qdisc", index))
	}
	return errors.Join(errs...)
}

func dropFilter(index int, ownsQdisc bool) error {
	filter, err := ourFilter(index)
	if filter == nil || err != nil {
		return ignoreGone(err)
	}
	filter.LinkIndex = index
	if err := netlink.FilterDel(filter); err != nil {
		return ignoreGone(fmt.Errorf("device %d: remove filter: %w", index, err))
	}
	if !ownsQdisc || inUse(index) {
		return nil
	}
	if err := netlink.QdiscDel(clsactQdisc(index)); err != nil {
		return ignoreGone(fmt.Errorf("device %d: remove qdisc: %w", index, err))
	}
	return nil
}

// inUse says whether filters of others are left; when in doubt, yes.
func inUse(index int) bool {
	device := &netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: index}}
	for _, parent := range []uint32{netlink.HANDLE_MIN_INGRESS, netlink.HANDLE_MIN_EGRESS} {
		filters, err := netlink.FilterList(device, parent)
		if err != nil || len(filters) > 0 {
			return true
		}
	}
	return false
}

func ignoreGone(err error) error {
	if errors.Is(err, unix.ENODEV) {
		return nil
	}
	return err
}

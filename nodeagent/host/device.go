// SPDX-License-Identifier: Apache-2.0

package host

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// DeviceName is the dummy device that holds the service addresses. Every
// address on it, link-local ones apart, is ours.
const DeviceName = "weir0"

// addressesByDevice reads the addresses of this namespace: ours, and the device
// of each other one.
func addressesByDevice() (ours []netip.Addr, held map[netip.Addr]string, err error) {
	links, err := netlink.LinkList()
	if err != nil {
		return nil, nil, fmt.Errorf("list devices: %w", err)
	}
	names := map[int]string{}
	for _, l := range links {
		names[l.Attrs().Index] = l.Attrs().Name
	}
	all, err := netlink.AddrList(nil, netlink.FAMILY_ALL)
	if err != nil {
		return nil, nil, fmt.Errorf("list addresses: %w", err)
	}
	held = map[netip.Addr]string{}
	for _, a := range all {
		address, ok := netip.AddrFromSlice(a.IP)
		if !ok {
			continue
		}
		address = address.Unmap()
		switch {
		case names[a.LinkIndex] != DeviceName:
			held[address] = names[a.LinkIndex]
		case !address.IsLinkLocalUnicast():
			ours = append(ours, address)
		}
	}
	slices.SortFunc(ours, netip.Addr.Compare)
	return ours, held, nil
}

// ensureDevice makes the device where there is none and takes it up.
func ensureDevice() (made bool, err error) {
	link, err := netlink.LinkByName(DeviceName)
	if errors.As(err, new(netlink.LinkNotFoundError)) {
		if err := makeDevice(); err != nil {
			return false, fmt.Errorf("make device %s: %w", DeviceName, err)
		}
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for device %s: %w", DeviceName, err)
	}
	if link.Type() != "dummy" {
		return false, fmt.Errorf("device %s is a %s, not a dummy: remove or rename it", DeviceName, link.Type())
	}
	if link.Attrs().Flags&net.FlagUp == 0 {
		if err := netlink.LinkSetUp(link); err != nil {
			return false, fmt.Errorf("take device %s up: %w", DeviceName, err)
		}
	}
	return false, nil
}

func makeDevice() error {
	link := &netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Name: DeviceName}}
	if err := netlink.LinkAdd(link); err != nil {
		return err
	}
	// It needs no link-local address of its own. A kernel without IPv6 has no
	// such setting.
	mode := filepath.Join(sysctlRoot, "net/ipv6/conf", DeviceName, "addr_gen_mode")
	if err := os.WriteFile(mode, []byte("1"), 0); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return netlink.LinkSetUp(link)
}

func addAddress(a netip.Addr) error {
	err := withDevice(func(l netlink.Link) error { return netlink.AddrAdd(l, deviceAddress(a)) })
	if err != nil && !errors.Is(err, syscall.EEXIST) {
		return fmt.Errorf("add %s to device %s: %w", a, DeviceName, err)
	}
	return nil
}

func removeAddress(a netip.Addr) error {
	err := withDevice(func(l netlink.Link) error { return netlink.AddrDel(l, deviceAddress(a)) })
	if err != nil && !errors.Is(err, syscall.EADDRNOTAVAIL) {
		return fmt.Errorf("remove %s from device %s: %w", a, DeviceName, err)
	}
	return nil
}

func withDevice(f func(netlink.Link) error) error {
	link, err := netlink.LinkByName(DeviceName)
	if err != nil {
		return err
	}
	return f(link)
}

// deviceAddress keeps the address from being chosen as the source of anything
// else, masquerading above all: an IPv4 one has host scope, an IPv6 one is
// deprecated from the start.
func deviceAddress(a netip.Addr) *netlink.Addr {
	address := &netlink.Addr{IPNet: &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(a.BitLen(), a.BitLen())}}
	if a.Is4() {
		address.Scope = int(netlink.SCOPE_HOST)
		return address
	}
	address.Flags = unix.IFA_F_NODAD
	address.ValidLft = math.MaxUint32
	return address
}

// deleteDevice removes the device; there need not be one.
func deleteDevice() error {
	link, err := netlink.LinkByName(DeviceName)
	if errors.As(err, new(netlink.LinkNotFoundError)) {
		return nil
	}
	if err == nil && link.Type() == "dummy" {
		err = netlink.LinkDel(link)
	}
	if err != nil {
		return fmt.Errorf("delete device %s: %w", DeviceName, err)
	}
	return nil
}

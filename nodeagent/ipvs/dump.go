// SPDX-License-Identifier: Apache-2.0

package ipvs

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	moby "github.com/moby/ipvs"
	"golang.org/x/sys/unix"
)

func dump(h *moby.Handle) ([]Service, error) {
	found, err := h.GetServices()
	if err != nil {
		return nil, fmt.Errorf("services: %w", err)
	}
	services := make([]Service, 0, len(found))
	for _, f := range found {
		if f.FWMark != 0 {
			continue
		}
		s, err := readService(f)
		if err != nil {
			return nil, err
		}
		destinations, err := h.GetDestinations(f)
		if errors.Is(err, unix.ESRCH) {
			continue // deleted since
		}
		if err != nil {
			return nil, fmt.Errorf("destinations of %s: %w", s.Key(), err)
		}
		for _, d := range destinations {
			r, err := readDestination(d, f.AddressFamily)
			if err != nil {
				return nil, fmt.Errorf("destination of %s: %w", s.Key(), err)
			}
			s.Destinations = append(s.Destinations, r)
		}
		services = append(services, s)
	}
	return services, nil
}

func readService(f *moby.Service) (Service, error) {
	a, err := readAddress(f.Address, f.AddressFamily)
	if err != nil {
		return Service{}, fmt.Errorf("service: %w", err)
	}
	s := Service{
		Address: a, Port: f.Port, Protocol: Protocol(f.Protocol), Scheduler: f.SchedName,
		Connections: f.Stats.Connections, Flags: f.Flags &^ flagHashed, Netmask: f.Netmask,
	}
	if f.Flags&flagPersistent != 0 {
		s.Affinity = time.Duration(f.Timeout) * time.Second
	}
	return s, nil
}

func readDestination(d *moby.Destination, family uint16) (Destination, error) {
	a, err := readAddress(d.Address, family)
	if err != nil {
		return Destination{}, err
	}
	return Destination{
		Address: a, Port: d.Port, Weight: uint32(d.Weight), Method: d.ConnectionFlags & moby.ConnFwdMask,
		ActiveConns: uint32(d.ActiveConnections), InactiveConns: uint32(d.InactiveConnections),
		Connections: d.Stats.Connections,
	}, nil
}

// readAddress takes the family from the service: where a reply names none,
// moby/ipvs guesses it from the bytes and cuts 2001:db8:: to four of them.
func readAddress(ip net.IP, family uint16) (netip.Addr, error) {
	if family == unix.AF_INET6 && len(ip) == net.IPv4len {
		ip = append(append(net.IP{}, ip...), make([]byte, 12)...)
	}
	a, ok := netip.AddrFromSlice(ip)
	if !ok || a.Is4() != (family == unix.AF_INET) {
		return netip.Addr{}, fmt.Errorf("address of %d bytes in family %d", len(ip), family)
	}
	return a, nil
}

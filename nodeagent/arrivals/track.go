// SPDX-License-Identifier: Apache-2.0

package arrivals

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/edgeweir/weir/bpf"
)

// Address is where a service is reached: one virtual address, port and protocol
// (unix.IPPROTO_TCP, _UDP or _SCTP).
type Address struct {
	IP       netip.Addr
	Port     uint16
	Protocol uint8
}

func (a Address) String() string {
	return fmt.Sprintf("%s/%d", netip.AddrPortFrom(a.IP, a.Port), a.Protocol)
}

// Service is a name under which the tasks to some addresses are counted.
type Service struct {
	Name      string
	Addresses []Address
}

// Origin says where clients with addresses in Prefix sit. Several prefixes may
// bear one name; of nested ones the narrowest holds.
type Origin struct {
	Prefix netip.Prefix
	Name   string
}

// The origins that have no prefix: the node's own network namespace, and
// addresses in none of the prefixes.
const (
	OriginSelf  = "self"
	OriginOther = "other"
)

// Ids of origins as in bpf/arrivals.h. Services start at 1: 0 is the overflow.
const (
	idOriginOther  = 0
	idOriginSelf   = 1
	firstOriginID  = 2
	firstServiceID = 1
)

// Kinds of names as in bpf/arrivals.h.
const (
	kindService = 0
	kindOrigin  = 1
)

// keepRetired is how long rows of names out of use stay, so that their last
// counts can be read; a packet that looked its service up just before is long done.
const keepRetired = time.Hour

// Track makes services and origins what is counted. Names keep their ids, and so
// their counts, over calls and restarts; ids are not used again. An address that
// passes to another service counts there from now on. On an error part of the
// change may have been made; calling again is safe.
func (c *Counter) Track(services []Service, origins []Origin) error {
	wanted, err := newWanted(services, origins)
	if err != nil {
		return fmt.Errorf("arrivals: %w", err)
	}
	err = c.store.exclusive(func() error {
		book, err := c.store.loadBook()
		if err != nil {
			return err
		}
		if err := c.store.apply(wanted, book, time.Now()); err != nil {
			return err
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.names = book.texts()
		return nil
	})
	if err != nil {
		return fmt.Errorf("arrivals: %w", err)
	}
	return nil
}

// wanted is what to track, checked: keys of the maps with the names for them.
type wanted struct {
	services map[bpf.ArrivalsServiceKey]string
	origins  map[bpf.ArrivalsOriginKey]string
	names    map[int]map[string]bool // by kind; a service without addresses too
}

func newWanted(services []Service, origins []Origin) (*wanted, error) {
	w := &wanted{
		services: map[bpf.ArrivalsServiceKey]string{},
		origins:  map[bpf.ArrivalsOriginKey]string{},
		names:    map[int]map[string]bool{kindService: {}, kindOrigin: {}},
	}
	for _, s := range services {
		if err := w.addService(s); err != nil {
			return nil, err
		}
	}
	for _, o := range origins {
		if err := w.addOrigin(o); err != nil {
			return nil, err
		}
	}
	return w, nil
}

func (w *wanted) addService(s Service) error {
	if err := checkName(s.Name); err != nil {
		return fmt.Errorf("service %q: %w", s.Name, err)
	}
	if w.names[kindService][s.Name] {
		return fmt.Errorf("service %q is given twice", s.Name)
	}
	w.names[kindService][s.Name] = true
	for _, a := range s.Addresses {
		key, err := serviceKey(a)
		if err != nil {
			return fmt.Errorf("service %q: %w", s.Name, err)
		}
		if other, taken := w.services[key]; taken && other != s.Name {
			return fmt.Errorf("service %q: address %s is service %q's", s.Name, a, other)
		}
		w.services[key] = s.Name
	}
	return nil
}

func (w *wanted) addOrigin(o Origin) error {
	if err := checkName(o.Name); err != nil {
		return fmt.Errorf("origin %q: %w", o.Name, err)
	}
	if o.Name == OriginSelf || o.Name == OriginOther {
		return fmt.Errorf("origin %q: the name means what has no prefix", o.Name)
	}
	if !o.Prefix.IsValid() {
		return fmt.Errorf("origin %q: prefix is not valid", o.Name)
	}
	key := originKey(o.Prefix)
	if other, taken := w.origins[key]; taken && other != o.Name {
		return fmt.Errorf("origin %q: prefix %s is origin %q's", o.Name, o.Prefix, other)
	}
	w.origins[key] = o.Name
	w.names[kindOrigin][o.Name] = true
	return nil
}

func checkName(name string) error {
	limit := len(bpf.ArrivalsName{}.Text) - 1
	switch {
	case name == "":
		return errors.New("name is empty")
	case len(name) > limit:
		return fmt.Errorf("name has %d bytes, more than %d", len(name), limit)
	case slices.Contains([]byte(name), 0):
		return errors.New("name has a zero byte")
	}
	return nil
}

func serviceKey(a Address) (bpf.ArrivalsServiceKey, error) {
	switch {
	case !a.IP.IsValid() || a.IP.IsUnspecified() || a.IP.Zone() != "":
		return bpf.ArrivalsServiceKey{}, fmt.Errorf("address %s: not one address", a)
	case a.Port == 0:
		return bpf.ArrivalsServiceKey{}, fmt.Errorf("address %s: port is 0", a)
	case a.Protocol != unix.IPPROTO_TCP && a.Protocol != unix.IPPROTO_UDP && a.Protocol != unix.IPPROTO_SCTP:
		return bpf.ArrivalsServiceKey{}, fmt.Errorf("address %s: protocol is not TCP, UDP or SCTP", a)
	}
	return bpf.ArrivalsServiceKey{Address: a.IP.As16(), Port: a.Port, Protocol: a.Protocol}, nil
}

func originKey(p netip.Prefix) bpf.ArrivalsOriginKey {
	bits := p.Bits()
	if p.Addr().Is4() {
		bits += 96
	}
	return bpf.ArrivalsOriginKey{Prefixlen: uint32(bits), Address: p.Masked().Addr().As16()}
}

// apply changes the maps in the order that never counts into a row without a
// name: names and rows, then keys; and what goes, the other way round.
func (s *store) apply(w *wanted, book *book, now time.Time) error {
	for kind, names := range w.names {
		for _, name := range slices.Sorted(maps.Keys(names)) {
			if err := s.name(book, kind, name); err != nil {
				return err
			}
		}
	}
	for name := range w.names[kindService] {
		if err := s.addRow(bpf.ArrivalsArrivalKey{Service: book.ids[kindService][name], Origin: idOriginOther}); err != nil {
			return fmt.Errorf("service %q: %w", name, err)
		}
	}
	services := make(map[bpf.ArrivalsServiceKey]bpf.ArrivalsService, len(w.services))
	for key, name := range w.services {
		services[key] = bpf.ArrivalsService{Id: book.ids[kindService][name]}
	}
	origins := make(map[bpf.ArrivalsOriginKey]bpf.ArrivalsOrigin, len(w.origins))
	for key, name := range w.origins {
		origins[key] = bpf.ArrivalsOrigin{Id: book.ids[kindOrigin][name]}
	}
	if err := replace(s.maps.Services, services); err != nil {
		return fmt.Errorf("map services: %w", err)
	}
	if err := replace(s.maps.Origins, origins); err != nil {
		return fmt.Errorf("map origins: %w", err)
	}
	return s.retire(w, book, now)
}

// replace makes the map hold exactly the entries: deletes first, since it may be
// full, and writes only what differs.
func replace[K, V comparable](m *ebpf.Map, entries map[K]V) error {
	present, err := dump[K, V](m)
	if err != nil {
		return err
	}
	for key := range present {
		if _, keep := entries[key]; keep {
			continue
		}
		if err := m.Delete(key); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("delete %v: %w", key, err)
		}
	}
	for key, value := range entries {
		if old, ok := present[key]; ok && old == value {
			continue
		}
		if err := m.Put(key, value); err != nil {
			return fmt.Errorf("put %v: %w", key, full(m, err))
		}
	}
	return nil
}

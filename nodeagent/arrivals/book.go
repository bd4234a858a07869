// SPDX-License-Identifier: Apache-2.0

package arrivals

import (
	"errors"
	"fmt"
	"time"

	"github.com/cilium/ebpf"

	"github.com/edgeweir/weir/bpf"
)

// book is the map of names as it stands: which id bears which name.
type book struct {
	entries map[bpf.ArrivalsNameKey]bpf.ArrivalsName
	ids     map[int]map[string]uint32 // by kind and name
	next    map[int]uint32            // the id above all given out, by kind
}

func (s *store) loadBook() (*book, error) {
	entries, err := dump[bpf.ArrivalsNameKey, bpf.ArrivalsName](s.maps.Names)
	if err != nil {
		return nil, fmt.Errorf("map names: %w", err)
	}
	b := &book{
		entries: entries,
		ids:     map[int]map[string]uint32{kindService: {}, kindOrigin: {}},
		next:    map[int]uint32{kindService: firstServiceID, kindOrigin: firstOriginID},
	}
	for key, entry := range entries {
		kind := int(key.Kind)
		if text := textOf(entry); text != "" {
			b.ids[kind][text] = key.Id
		}
		b.next[kind] = max(b.next[kind], key.Id+1)
	}
	return b, nil
}

// texts are the names by kind and id, with those that need no entry.
func (b *book) texts() map[bpf.ArrivalsNameKey]string {
	texts := map[bpf.ArrivalsNameKey]string{
		{Kind: kindOrigin, Id: idOriginOther}: OriginOther,
		{Kind: kindOrigin, Id: idOriginSelf}:  OriginSelf,
	}
	for key, entry := range b.entries {
		if text := textOf(entry); text != "" {
			texts[key] = text
		}
	}
	return texts
}

func textOf(entry bpf.ArrivalsName) string {
	var text []byte
	for _, c := range entry.Text {
		if c == 0 {
			break
		}
		text = append(text, byte(c))
	}
	return string(text)
}

// name gives the name an id, or brings it back into use.
func (s *store) name(b *book, kind int, text string) error {
	id, known := b.ids[kind][text]
	if !known {
		id = b.next[kind]
	}
	key := bpf.ArrivalsNameKey{Kind: uint32(kind), Id: id}
	if known && b.entries[key].Retired == 0 {
		return nil
	}
	var entry bpf.ArrivalsName
	for i, c := range []byte(text) {
		entry.Text[i] = int8(c)
	}
	if err := s.writeName(b, key, entry); err != nil {
		return fmt.Errorf("name %q: %w", text, err)
	}
	b.ids[kind][text] = id
	b.next[kind] = max(b.next[kind], id+1)
	return nil
}

func (s *store) writeName(b *book, key bpf.ArrivalsNameKey, entry bpf.ArrivalsName) error {
	if err := s.maps.Names.Put(key, entry); err != nil {
		return fmt.Errorf("map names: put: %w", full(s.maps.Names, err))
	}
	b.entries[key] = entry
	return nil
}

// retire marks names out of use, and forgets those that have been so for long,
// with their rows. The highest id of a kind stays, without its name, so that no
// later start gives it out again.
func (s *store) retire(w *wanted, b *book, now time.Time) error {
	gone := map[bpf.ArrivalsNameKey]bool{}
	for key, entry := range b.entries {
		if text := textOf(entry); text == "" || w.names[int(key.Kind)][text] {
			continue
		}
		if entry.Retired == 0 {
			entry.Retired = uint64(now.Unix())
			if err := s.writeName(b, key, entry); err != nil {
				return err
			}
		}
		if now.Sub(time.Unix(int64(entry.Retired), 0)) > keepRetired {
			gone[key] = true
		}
	}
	if len(gone) == 0 {
		return nil
	}
	if err := s.deleteRows(gone); err != nil {
		return fmt.Errorf("map arrivals: %w", err)
	}
	for key := range gone {
		if err := s.forgetName(b, key); err != nil {
			return err
		}
	}
	return s.forgetTombstones(b)
}

func (s *store) deleteRows(gone map[bpf.ArrivalsNameKey]bool) error {
	rows, err := dumpRows(s.maps.Arrivals)
	if err != nil {
		return err
	}
	for key := range rows {
		if !gone[bpf.ArrivalsNameKey{Kind: kindService, Id: key.Service}] && !gone[bpf.ArrivalsNameKey{Kind: kindOrigin, Id: key.Origin}] {
			continue
		}
		if err := s.maps.Arrivals.Delete(key); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("delete %v: %w", key, err)
		}
	}
	return nil
}

// forgetName leaves an entry without text where the id is its kind's highest.
func (s *store) forgetName(b *book, key bpf.ArrivalsNameKey) error {
	delete(b.ids[int(key.Kind)], textOf(b.entries[key]))
	if key.Id+1 == b.next[int(key.Kind)] {
		return s.writeName(b, key, bpf.ArrivalsName{Retired: b.entries[key].Retired})
	}
	return s.deleteName(b, key)
}

// forgetTombstones deletes entries without text below the highest id.
func (s *store) forgetTombstones(b *book) error {
	for key, entry := range b.entries {
		if textOf(entry) == "" && key.Id+1 < b.next[int(key.Kind)] {
			if err := s.deleteName(b, key); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *store) deleteName(b *book, key bpf.ArrivalsNameKey) error {
	if err := s.maps.Names.Delete(key); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("map names: delete: %w", err)
	}
	delete(b.entries, key)
	return nil
}

// SPDX-License-Identifier: Apache-2.0

package arrivals

import (
	"context"
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/edgeweir/weir/bpf"
)

// Stats is what went otherwise than one task, one count, since the maps were made.
type Stats struct {
	Repeated    uint64 // retransmitted SYNs and INITs
	Fragments   uint64 // later fragments, which carry no ports
	Malformed   uint64 // headers cut short or contradicting themselves
	Untracked   uint64 // counted, but not remembered: may have been counted again
	OriginsFull uint64 // counted for the service with origin other: no room for a row
	Overflowed  uint64 // counted in Totals.Overflow alone: no room for a row
	Rows        uint32 // rows of service and origin in use, as last read
	MaxRows     uint32 // and the room for them
}

// Read returns the counts since the maps were made, complete or not at all.
func (c *Counter) Read(ctx context.Context) (Totals, error) {
	rows, err := readRetrying(ctx, func() (map[bpf.ArrivalsArrivalKey]uint64, error) { return dumpRows(c.store.maps.Arrivals) })
	if err != nil {
		return Totals{}, fmt.Errorf("arrivals: map arrivals: %w", err)
	}
	names, err := c.namesFor(rows)
	if err != nil {
		return Totals{}, fmt.Errorf("arrivals: %w", err)
	}
	return newTotals(c.epoch, rows, names), nil
}

// namesFor reads the names again where a row has one that is not known yet, by
// another agent's hand.
func (c *Counter) namesFor(rows map[bpf.ArrivalsArrivalKey]uint64) (map[bpf.ArrivalsNameKey]string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key := range rows {
		if key == (bpf.ArrivalsArrivalKey{}) || named(c.names, key) {
			continue
		}
		book, err := c.store.loadBook()
		if err != nil {
			return nil, err
		}
		c.names = book.texts()
		break
	}
	return c.names, nil
}

func named(names map[bpf.ArrivalsNameKey]string, key bpf.ArrivalsArrivalKey) bool {
	_, service := names[bpf.ArrivalsNameKey{Kind: kindService, Id: key.Service}]
	_, origin := names[bpf.ArrivalsNameKey{Kind: kindOrigin, Id: key.Origin}]
	return service && origin
}

// Stats reads what was dropped, full or malformed.
func (c *Counter) Stats(ctx context.Context) (Stats, error) {
	var perCPU []bpf.ArrivalsStats
	if err := c.store.maps.Stats.Lookup(uint32(0), &perCPU); err != nil {
		return Stats{}, fmt.Errorf("arrivals: map stats: %w", err)
	}
	rows, err := readRetrying(ctx, func() (map[bpf.ArrivalsArrivalKey]uint64, error) { return dumpRows(c.store.maps.Arrivals) })
	if err != nil {
		return Stats{}, fmt.Errorf("arrivals: map arrivals: %w", err)
	}
	sum := Stats{Rows: uint32(len(rows)), MaxRows: c.store.maps.Arrivals.MaxEntries()}
	for _, cpu := range perCPU {
		sum.Repeated += cpu.Repeated
		sum.Fragments += cpu.Fragments
		sum.Malformed += cpu.Malformed
		sum.Untracked += cpu.Untracked
		sum.OriginsFull += cpu.OriginsFull
		sum.Overflowed += cpu.Overflowed
	}
	return sum, nil
}

// readAttempts bounds how often a reading that was disturbed starts again.
const readAttempts = 5

func readRetrying[T any](ctx context.Context, read func() (T, error)) (T, error) {
	var nothing T
	var err error
	for range readAttempts {
		if err := ctx.Err(); err != nil {
			return nothing, err
		}
		var all T
		if all, err = read(); err == nil {
			return all, nil
		}
		if !errors.Is(err, ebpf.ErrIterationAborted) {
			break
		}
	}
	return nothing, err
}

// dumpRows reads the per-CPU counts, summed, by batches where the kernel has them
// (5.6).
func dumpRows(m *ebpf.Map) (map[bpf.ArrivalsArrivalKey]uint64, error) {
	cpus := ebpf.MustPossibleCPU()
	rows := map[bpf.ArrivalsArrivalKey]uint64{}
	err := batches(m, firstBatch, cpus, func(keys []bpf.ArrivalsArrivalKey, values []bpf.ArrivalsArrival) {
		for i, key := range keys {
			rows[key] = sum(values[i*cpus : (i+1)*cpus])
		}
	})
	if errors.Is(err, ebpf.ErrNotSupported) {
		return iterateRows(m)
	}
	return rows, err
}

func iterateRows(m *ebpf.Map) (map[bpf.ArrivalsArrivalKey]uint64, error) {
	rows := map[bpf.ArrivalsArrivalKey]uint64{}
	var key bpf.ArrivalsArrivalKey
	var perCPU []bpf.ArrivalsArrival
	each := m.Iterate()
	for each.Next(&key, &perCPU) {
		rows[key] = sum(perCPU)
	}
	return rows, each.Err()
}

// sum adds up the possible CPUs, of which those not present have zeros.
func sum(perCPU []bpf.ArrivalsArrival) uint64 {
	var tasks uint64
	for _, cpu := range perCPU {
		tasks += cpu.Tasks
	}
	return tasks
}

// dump reads a whole map that only user space changes.
func dump[K comparable, V any](m *ebpf.Map) (map[K]V, error) {
	all := map[K]V{}
	var key K
	var value V
	each := m.Iterate()
	for each.Next(&key, &value) {
		all[key] = value
	}
	return all, each.Err()
}

// firstBatch is how many entries are asked for at a time. A bucket that holds
// more answers ENOSPC, and the reading starts again with twice as many.
const firstBatch = 4096

// batches hands all entries of a hash to f, size or more at a time, values being
// perKey times the keys. f must bear seeing entries again.
func batches[K, V any](m *ebpf.Map, size, perKey int, f func([]K, []V)) error {
	size = min(size, int(m.MaxEntries()))
	for {
		err := batchesOf(m, size, perKey, f)
		if !errors.Is(err, unix.ENOSPC) || size >= int(m.MaxEntries()) {
			return err
		}
		size = min(2*size, int(m.MaxEntries()))
	}
}

func batchesOf[K, V any](m *ebpf.Map, size, perKey int, f func([]K, []V)) error {
	var cursor ebpf.MapBatchCursor
	keys := make([]K, size)
	values := make([]V, size*perKey)
	for {
		n, err := m.BatchLookup(&cursor, keys, values, nil)
		if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return err
		}
		f(keys[:n], values[:n*perKey])
		if err != nil {
			return nil
		}
	}
}

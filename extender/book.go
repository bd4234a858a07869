// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"context"
	"time"

	"github.com/edgeweir/weir/internal/wire"
)

// entry is the directive of one owner; it is not changed once it is in a book.
type entry struct {
	wire.Directive
}

func (e *entry) slot(id string) *wire.Slot {
	for i := range e.Slots {
		if e.Slots[i].ID == id {
			return &e.Slots[i]
		}
	}
	return nil
}

// heldBy returns the slot that the pod of this UID holds; nil where e is nil or
// there is none.
func (e *entry) heldBy(pod string) *wire.Slot {
	if e == nil {
		return nil
	}
	for i := range e.Slots {
		if c := e.Slots[i].Claim; c != nil && c.Pod == pod {
			return &e.Slots[i]
		}
	}
	return nil
}

// book is a copy of the directives that can be read, by owner.
type book struct {
	owners map[string]*entry
	// asked is when the reading began: later claims are not in it.
	asked time.Time
}

func newBook(directives []wire.Directive, asked time.Time) *book {
	b := &book{owners: make(map[string]*entry, len(directives)), asked: asked}
	for _, d := range directives {
		b.owners[d.Owner] = &entry{Directive: d}
	}
	return b
}

// keepBook reads the directives at each notice and every Refresh, until ctx ends.
func (e *Extender) keepBook(ctx context.Context) error {
	notices := e.store.DirectiveNotices(ctx)
	tick := time.NewTicker(e.config.Refresh)
	defer tick.Stop()
	failing := false
	for {
		err := e.refresh(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if (err != nil) != failing {
			failing = err != nil
			if failing {
				e.logger.Warn("directives can't be read, the last copy stays", "error", err)
			} else {
				e.logger.Info("directives are read again")
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-notices:
		case <-tick.C:
		}
	}
}

// refresh reads the directives once. Where only some can't be used, the others
// count all the same.
func (e *Extender) refresh(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, e.config.Redis.Timeout)
	defer cancel()
	asked := time.Now()
	directives, err := e.store.Directives(ctx)
	if err != nil {
		e.metrics.refreshErrors.Inc()
		if directives == nil {
			return err
		}
	}
	b := newBook(directives, asked)
	e.book.Store(b)
	e.metrics.read(b)
	e.adopt(ctx, b)
	return err
}

// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"fmt"
	"time"

	"github.com/edgeweir/weir/internal/wire"
)

// Orders are what people tell the optimizer.
type Orders struct {
	// Frozen is nil unless all must stay as it is.
	Frozen *wire.Freeze
	// Asked says that someone looks at the state.
	Asked bool
}

// Orders returns what holds now. A freeze that can't be read is one all the
// same: its error is a KeyError beside it.
func (s *Store) Orders(ctx context.Context) (Orders, error) {
	freeze, ask := s.key("freeze"), s.key("ask")
	values, err := s.get(ctx, []string{freeze, ask})
	if err != nil {
		return Orders{}, err
	}
	_, asked := values[ask]
	o := Orders{Asked: asked}
	value, frozen := values[freeze]
	if !frozen {
		return o, nil
	}
	f, err := decode[wire.Freeze](freeze, value, func(*wire.Freeze) error { return nil })
	if err != nil {
		f = wire.Freeze{Version: wire.Version, Why: "the order in " + freeze + " can't be read"}
	}
	o.Frozen = &f
	return o, err
}

// Freeze writes f, which holds until Unfreeze.
func (s *Store) Freeze(ctx context.Context, f *wire.Freeze) error {
	data, err := wire.Encode(f)
	if err != nil {
		return err
	}
	if err := s.client.Set(ctx, s.key("freeze"), data, 0).Err(); err != nil {
		return fmt.Errorf("redis SET %s: %w", s.key("freeze"), err)
	}
	return nil
}

// Unfreeze takes a freeze back and says whether there was one.
func (s *Store) Unfreeze(ctx context.Context) (bool, error) {
	n, err := s.client.Del(ctx, s.key("freeze")).Result()
	if err != nil {
		return false, fmt.Errorf("redis DEL %s: %w", s.key("freeze"), err)
	}
	return n > 0, nil
}

// Ask lets the optimizer write its state each period, for a while.
func (s *Store) Ask(ctx context.Context, while time.Duration) error {
	if err := s.client.Set(ctx, s.key("ask"), 1, while).Err(); err != nil {
		return fmt.Errorf("redis SET %s: %w", s.key("ask"), err)
	}
	return nil
}

// State returns the optimizer's last state, or nil when there is none.
func (s *Store) State(ctx context.Context) (*wire.State, error) {
	return read[wire.State](ctx, s, "state")
}

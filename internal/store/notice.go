// SPDX-License-Identifier: Apache-2.0

package store

import "context"

// listen returns a channel that gets a value when something is published at
// channel; several may fold into one. It is closed when ctx ends.
func (s *Store) listen(ctx context.Context, channel string) <-chan struct{} {
	notices := make(chan struct{}, 1)
	sub := s.client.Subscribe(ctx, channel)
	go func() {
		defer close(notices)
		defer sub.Close()
		messages := sub.Channel() // it reconnects by itself
		for {
			select {
			case <-ctx.Done():
				return
			case _, ok := <-messages:
				if !ok {
					return
				}
			}
			select {
			case notices <- struct{}{}:
			default: // one is waiting already
			}
		}
	}()
	return notices
}

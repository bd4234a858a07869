// SPDX-License-Identifier: Apache-2.0

package nodeagent

import (
	"context"
	"time"
)

// watchViews reads what the optimizer says when it has published, and once a
// period in any case, and hands it to the loop.
func (a *Agent) watchViews(ctx context.Context) error {
	notices := a.store.Notices(ctx)
	poll := time.NewTicker(a.config.Period)
	defer poll.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case _, ok := <-notices:
			if !ok {
				return nil
			}
			poll.Reset(a.config.Period)
		case <-poll.C:
		}
		a.readView(ctx)
	}
}

func (a *Agent) readView(ctx context.Context) {
	i := a.interest.Load()
	ctx, cancel := context.WithTimeout(ctx, max(a.config.Period/2, 100*time.Millisecond))
	defer cancel()
	view, err := a.store.View(ctx, a.config.Node, i.zone, i.services)
	if err != nil && ctx.Err() != context.Canceled {
		a.metrics.viewErrors.Inc()
		a.logger.Warn("reading ratios: what can't be read stays as it was", "error", err)
	}
	if view.Pulse != nil {
		replace(a.views, view)
	}
}

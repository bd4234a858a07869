// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"context"
	"time"

	"github.com/edgeweir/weir/internal/wire"
)

// nominationDelays is how long after a refusal the pod is nominated, by the
// number of nominations before. The first is soon, but after the end of the
// scheduling cycle that asked: a cycle that fails takes away a nomination that
// it finds. The later ones slow down, since each makes the scheduler try again.
var nominationDelays = []time.Duration{20 * time.Millisecond, 100 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second}

// callLimit bounds one call to the API server.
const callLimit = 5 * time.Second

// refused notes that pod's target was not offered, and nominates it. In that
// call the pod was nominated for node nominated; empty: none.
func (e *Extender) refused(pod podRef, nominated string) {
	e.desk.update(pod.UID, func(p *placement) {
		p.refusals, p.waiting = p.refusals+1, true
		p.unfit = p.unfit || nominated == p.target
	})
	e.nominate(pod)
}

// accepted notes that pod was sent to its target, so that a nomination under way
// is not made: the pod is about to be bound.
func (e *Extender) accepted(pod podRef) {
	e.desk.update(pod.UID, func(p *placement) { p.waiting = false })
}

// nominate sets the pod's nominatedNodeName to its target after a while, unless
// that is under way. The change also makes the scheduler try the pod again.
func (e *Extender) nominate(pod podRef) {
	if !e.config.Nominate {
		return
	}
	var due *placement
	e.desk.update(pod.UID, func(p *placement) {
		if p.state == wire.Claimed && !p.pending {
			p.pending = true
			copied := *p
			due = &copied
		}
	})
	if due == nil {
		return
	}
	e.spawn(func(ctx context.Context) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(nominationDelays[min(due.nominated, len(nominationDelays)-1)]):
		}
		e.sendNomination(ctx, due)
	})
}

func (e *Extender) sendNomination(ctx context.Context, p *placement) {
	var still bool
	e.desk.update(p.pod.UID, func(q *placement) {
		q.pending, still = false, q.state == wire.Claimed && q.waiting
		if still {
			q.nominated++
		}
	})
	if !still {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	if err := e.pods.Nominate(ctx, p.pod, p.target); err != nil {
		e.metrics.nominations.WithLabelValues("error").Inc()
		e.logger.Warn("not nominated", "pod", p.pod, "node", p.target, "error", err)
		return
	}
	e.metrics.nominations.WithLabelValues("done").Inc()
	e.logger.Debug("nominated", "pod", p.pod, "node", p.target)
}

// explain tells at the pod why it was let go, and takes its nomination back. The
// change makes the scheduler try the pod again at once: without one, a pod that
// was refused may wait for minutes.
func (e *Extender) explain(ctx context.Context, pod podRef, reason, message string) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	if err := e.pods.Explain(ctx, pod, reason, message); err != nil {
		e.metrics.explainErrors.Inc()
		e.logger.Warn("the pod was not told why it was let go", "pod", pod, "reason", reason, "error", err)
	}
}

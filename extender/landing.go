// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"context"
	"time"

	"github.com/edgeweir/weir/internal/wire"
)

// Reasons for letting a pod go.
const (
	whyNotOffered = "not-offered" // the scheduler never offered the target
	whyUnfit      = "unfit"       // it tried the nominated target first, and that did not fit
	whyUnclaimed  = "unclaimed"   // no pod of the owner came
	whyWithdrawn  = "withdrawn"   // the optimizer took the slot back, or Redis lost it
	whyRedis      = "redis"       // Redis did not grant a slot
)

// adopt brings the desk in line with b: claims of other replicas come in, what
// was released or withdrawn goes, and slots whose deadline has passed are let go.
func (e *Extender) adopt(ctx context.Context, b *book) {
	for _, p := range e.desk.stale(b) {
		e.desk.drop(p.pod.UID)
		if d := b.owners[p.owner]; p.state == wire.Claimed && (d == nil || d.slot(p.slot) == nil) {
			e.metrics.letGo.WithLabelValues(whyWithdrawn).Inc()
			e.spawn(func(ctx context.Context) {
				e.explain(ctx, p.pod, whyWithdrawn, "the directive for node "+p.target+" was withdrawn or lost")
			})
		}
	}
	now := time.Now()
	e.desk.forget(now.Add(-e.config.Hold - time.Minute))
	for _, d := range b.owners {
		for i := range d.Slots {
			s := &d.Slots[i]
			switch {
			case s.Claim == nil && now.After(s.Deadline):
				e.settle(ctx, d.Owner, s.ID, wire.Claim{State: wire.LetGo, Why: "no pod of " + d.Workload + " came until the deadline"}, whyUnclaimed)
			case s.Claim != nil && s.Claim.Pod != "":
				e.adoptClaim(ctx, d, s)
			}
		}
	}
}

// adoptClaim takes over what the book says of one claim.
func (e *Extender) adoptClaim(ctx context.Context, d *entry, s *wire.Slot) {
	pod, err := refOf(s.Claim)
	if err != nil {
		return
	}
	e.follow(pod, d.Owner, s, s.Claim.State)
	p, ok := e.desk.find(pod.UID)
	switch {
	case !ok || p.state == s.Claim.State:
	case p.state == wire.Claimed: // the other replica settled it
		e.desk.update(pod.UID, func(p *placement) { p.state = s.Claim.State; p.unfollow() })
	case s.Claim.State != wire.Claimed:
	case p.state == wire.LetGo: // Redis did not answer when it was let go
		e.settle(ctx, d.Owner, s.ID, letGoClaim(p), p.reason())
	case p.state == wire.Landed:
		e.settle(ctx, d.Owner, s.ID, landedClaim(pod), "")
	}
}

// follow puts a claim on the desk and watches its pod until that is bound or
// gone, or the claim is settled.
func (e *Extender) follow(pod podRef, owner string, s *wire.Slot, state string) {
	ctx, unfollow := context.WithCancel(e.ctx)
	if !e.desk.place(pod, owner, s, state, unfollow) {
		unfollow()
		return
	}
	if state != wire.Claimed {
		unfollow()
		return
	}
	target, slot := s.Node, s.ID
	e.spawn(func(context.Context) {
		defer unfollow()
		node, err := e.pods.Bound(ctx, pod)
		if err == nil {
			e.landed(pod, owner, slot, target, node)
		}
	})
}

// landed settles the claim of a pod that was bound to node, or is gone where
// node is empty.
func (e *Extender) landed(pod podRef, owner, slot, target, node string) {
	ctx, cancel := context.WithTimeout(e.ctx, e.config.Redis.Timeout)
	defer cancel()
	if node == target {
		e.desk.update(pod.UID, func(p *placement) { p.state = wire.Landed })
		e.settle(ctx, owner, slot, landedClaim(pod), "")
		e.metrics.landings.WithLabelValues("target").Inc()
		e.logger.Info("landed", "pod", pod, "node", node, "slot", slot)
		return
	}
	p, _ := e.desk.find(pod.UID)
	e.desk.drop(pod.UID)
	result := "elsewhere"
	if node == "" {
		result = "vanished"
	}
	e.metrics.landings.WithLabelValues(result).Inc()
	e.logger.Info("not landed", "pod", pod, "target", target, "node", node, "slot", slot, "result", result)
	if p.state == wire.LetGo {
		return
	}
	if _, err := e.store.Release(ctx, owner, slot, pod.UID); err != nil {
		e.metrics.settleErrors.Inc()
		e.logger.Warn("slot not released", "slot", slot, "error", err)
	}
}

// settle writes what became of a slot; with a reason it counts as let go.
func (e *Extender) settle(ctx context.Context, owner, slot string, c wire.Claim, reason string) {
	c.Version, c.At = wire.Version, time.Now().UTC()
	changed, err := e.store.Settle(ctx, owner, slot, c)
	if err != nil {
		e.metrics.settleErrors.Inc()
		e.logger.Warn("slot not settled, it is tried again", "slot", slot, "error", err)
		return
	}
	if changed && reason != "" {
		e.metrics.letGo.WithLabelValues(reason).Inc()
		e.logger.Info("let go", "pod", c.Name, "slot", slot, "reason", reason, "why", c.Why)
	}
}

// letGoLate lets pods go whose deadline has passed, until ctx ends.
func (e *Extender) letGoLate(ctx context.Context) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-tick.C:
			for _, p := range e.desk.list() {
				if p.state == wire.Claimed && now.After(p.deadline) {
					e.letGo(p)
				}
			}
		}
	}
}

// letGo ends the wait of a pod and has the scheduler try it once more.
func (e *Extender) letGo(p placement) {
	e.desk.update(p.pod.UID, func(q *placement) { q.state = wire.LetGo; q.unfollow() })
	e.spawn(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, e.config.Redis.Timeout)
		defer cancel()
		e.settle(ctx, p.owner, p.slot, letGoClaim(p), p.reason())
	})
	e.spawn(func(ctx context.Context) { e.explain(ctx, p.pod, p.reason(), p.why()) })
}

func landedClaim(pod podRef) wire.Claim {
	return wire.Claim{Pod: pod.UID, Name: pod.String(), State: wire.Landed}
}

func letGoClaim(p placement) wire.Claim {
	return wire.Claim{Pod: p.pod.UID, Name: p.pod.String(), State: wire.LetGo, Why: p.why()}
}

// reason says why p did not land until its deadline.
func (p placement) reason() string {
	if p.unfit {
		return whyUnfit
	}
	return whyNotOffered
}

func (p placement) why() string {
	if p.unfit {
		return "node " + p.target + " did not fit until the deadline, though it was tried first"
	}
	return "node " + p.target + " was not offered until the deadline"
}

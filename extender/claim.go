// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/edgeweir/weir/internal/store"
	"github.com/edgeweir/weir/internal/wire"
)

// claiming is a claim under way for one pod. It outlives the calls that wait for
// it, so that a slow answer of Redis is there when the scheduler asks again.
type claiming struct {
	first time.Time     // when the pod first asked
	done  chan struct{} // closed when err is set
	err   error
	// missed says that a call went without the answer.
	missed bool
}

// outcome is how a call was answered, as the metrics name it.
type outcome string

const (
	outNone     outcome = "pass"     // the pod carries no directive
	outNoSlot   outcome = "no-slot"  // others have the slots of its owner
	outNoAnswer outcome = "no-claim" // Redis has not answered its claim yet
	outBad      outcome = "bad-call"
)

// decide returns the verdict on a call. It waits for nothing unless the pod's
// owner has a free slot, and then ClaimWait at most.
func (e *Extender) decide(a *ask, now time.Time) (verdict, offer, outcome, error) {
	pod := a.pod()
	p, ok := e.desk.find(pod.UID)
	var directive *entry
	if !ok {
		if directive = e.book.Load().owners[a.owner()]; directive == nil {
			return verdict{}, offer{}, outNone, nil
		}
	}
	o, err := a.offer()
	if err != nil {
		return verdict{}, offer{}, outBad, err
	}
	if s := directive.heldBy(pod.UID); !ok && s != nil { // another replica claimed it
		e.follow(pod, directive.Owner, s, s.Claim.State)
		p, ok = e.desk.find(pod.UID)
	}
	if !ok {
		slots := directive.free(o.names, now)
		if len(slots) == 0 {
			return verdict{}, o, outNoSlot, nil
		}
		switch err := e.claim(pod, directive, slots); {
		case errors.Is(err, store.ErrNoSlot):
			return verdict{}, o, outNoSlot, nil
		case err != nil:
			return e.unclaimed(pod, directive, o, now), o, outNoAnswer, nil
		}
		if p, ok = e.desk.find(pod.UID); !ok { // released in between
			return verdict{}, o, outNoSlot, nil
		}
	}
	v := judge(p, o.names, now)
	e.logger.Debug("judged", "pod", pod, "target", p.target, "offered", len(o.names), "verdict", v.kind.String())
	return v, o, outcome(v.kind.String()), nil
}

// errWaiting says that Redis has not answered within ClaimWait.
var errWaiting = errors.New("no answer yet")

// claim takes a slot for pod, or waits for the claim that an earlier call began.
func (e *Extender) claim(pod podRef, d *entry, slots []string) error {
	c := e.begin(pod, d, slots)
	wait := time.NewTimer(e.config.ClaimWait)
	defer wait.Stop()
	select {
	case <-c.done:
		return c.err
	case <-wait.C:
		return errWaiting
	}
}

func (e *Extender) begin(pod podRef, d *entry, slots []string) *claiming {
	e.desk.mu.Lock()
	defer e.desk.mu.Unlock()
	c := &claiming{first: time.Now(), done: make(chan struct{})}
	if before := e.desk.claims[pod.UID]; before != nil {
		if before.underWay() || e.desk.placed[pod.UID] != nil {
			return before
		}
		c.first = before.first
	}
	e.desk.claims[pod.UID] = c
	e.spawn(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, e.config.Redis.Timeout)
		defer cancel()
		c.err = e.take(ctx, pod, d, slots)
		close(c.done)
		if c.err == nil && e.desk.missed(pod.UID) {
			e.refused(pod, "")
		}
	})
	return c
}

func (c *claiming) underWay() bool {
	select {
	case <-c.done:
		return false
	default:
		return true
	}
}

// take claims in Redis and puts what it got on the desk.
func (e *Extender) take(ctx context.Context, pod podRef, d *entry, slots []string) error {
	id, err := e.store.Claim(ctx, d.Owner, slots, wire.Claim{
		Version: wire.Version, Pod: pod.UID, Name: pod.String(), At: time.Now().UTC(), State: wire.Claimed,
	})
	switch {
	case errors.Is(err, store.ErrNoSlot):
		e.metrics.claims.WithLabelValues("no-slot").Inc()
		return err
	case err != nil:
		e.metrics.claims.WithLabelValues("error").Inc()
		e.logger.Warn("a slot can't be claimed, the pod is tried again", "pod", pod, "workload", d.Workload, "error", err)
		return err
	}
	slot := d.slot(id)
	if slot == nil { // the pod had it before this copy of the directive
		return fmt.Errorf("slot %s of %s is not known yet", id, d.Workload)
	}
	e.metrics.claims.WithLabelValues("granted").Inc()
	e.logger.Info("slot claimed", "pod", pod, "workload", d.Workload, "slot", id, "target", slot.Node, "reason", slot.Reason)
	e.follow(pod, d.Owner, slot, wire.Claimed)
	return nil
}

// unclaimed is the verdict on a pod for which Redis has not granted a slot in
// time. It is held back, to be tried again, for Hold: a pod that waits longer
// is missed by its service more than its place is worth.
func (e *Extender) unclaimed(pod podRef, d *entry, o offer, now time.Time) verdict {
	e.desk.mu.Lock()
	if p := e.desk.placed[pod.UID]; p != nil { // it came in between
		defer e.desk.mu.Unlock()
		return judge(*p, o.names, now)
	}
	c := e.desk.claims[pod.UID]
	end := c.first.Add(e.config.Hold)
	first := !c.missed
	c.missed = true
	e.desk.mu.Unlock()
	if now.Before(end) {
		if first {
			e.spawn(func(ctx context.Context) { e.wakeAt(ctx, pod, end) })
		}
		return verdict{kind: withhold, why: "weir: waits for Redis to grant the place of its directive"}
	}
	e.metrics.letGo.WithLabelValues(whyRedis).Inc()
	var sources []string
	for i := range d.Slots {
		if s := &d.Slots[i]; s.Claim == nil && s.Source != "" && !slices.Contains(sources, s.Source) {
			sources = append(sources, s.Source)
		}
	}
	return leave(verdict{sources: sources}, o.names)
}

// wakeAt has the scheduler try a pod again at end, unless it has a slot by then.
func (e *Extender) wakeAt(ctx context.Context, pod podRef, end time.Time) {
	select {
	case <-ctx.Done():
		return
	case <-time.After(time.Until(end)):
	}
	if _, ok := e.desk.find(pod.UID); !ok {
		e.explain(ctx, pod, whyRedis, "Redis did not grant the place of the pod's directive for "+e.config.Hold.String())
	}
}

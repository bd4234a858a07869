// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"slices"
	"time"

	"github.com/edgeweir/weir/internal/wire"
)

// kind is what a verdict does with the nodes of a call.
type kind int

const (
	pass     kind = iota // all of them
	only                 // the target
	withhold             // none, so that the scheduler tries the pod again
	avoid                // all but the sources
)

func (k kind) String() string {
	return [...]string{"pass", "target", "withheld", "let-go"}[k]
}

// verdict is the answer to a call before it takes the call's form.
type verdict struct {
	kind    kind
	target  string   // the node for which the pod is meant; empty: none
	sources []string // nodes to avoid
	why     string   // told for each node that is refused
}

// judge decides for a pod that holds a slot, given the names of the nodes that
// are offered. The scheduler offers a sample of the nodes, so a target that is
// not among them is not infeasible: all are refused until the deadline, and the
// directive stays. After it the pod goes where the scheduler likes, but not back
// to its source while there is another node.
func judge(p placement, offered []string, now time.Time) verdict {
	v := verdict{target: p.target}
	if p.source != "" {
		v.sources = []string{p.source}
	}
	held := p.state == wire.Claimed && now.Before(p.deadline)
	switch {
	case slices.Contains(offered, p.target) && p.state != wire.LetGo:
		v.kind, v.why = only, "weir: meant for node "+p.target
	case held:
		v.kind, v.why = withhold, "weir: waits for node "+p.target+", which was not offered"
	default:
		return leave(v, offered)
	}
	return v
}

// leave lets a pod go where the scheduler likes, without v's sources while there
// is another node.
func leave(v verdict, offered []string) verdict {
	v.kind, v.why = avoid, "weir: moves away from this node"
	if !slices.ContainsFunc(offered, func(n string) bool { return !slices.Contains(v.sources, n) }) {
		v.kind = pass
	}
	return v
}

// free returns the ids of e's slots that a pod can still claim, those whose
// target is offered first.
func (e *entry) free(offered []string, now time.Time) []string {
	var near, far []string
	for i := range e.Slots {
		s := &e.Slots[i]
		if s.Claim != nil || !now.Before(s.Deadline) {
			continue
		}
		if slices.Contains(offered, s.Node) {
			near = append(near, s.ID)
		} else {
			far = append(far, s.ID)
		}
	}
	return append(near, far...)
}

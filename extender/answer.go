// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"encoding/json"
	"slices"

	extenderv1 "k8s.io/kube-scheduler/extender/v1"
)

// filterResult is an ExtenderFilterResult whose nodes are in the form that they
// came in.
type filterResult struct {
	Nodes                      json.RawMessage           `json:",omitempty"`
	NodeNames                  json.RawMessage           `json:",omitempty"`
	FailedAndUnresolvableNodes extenderv1.FailedNodesMap `json:",omitempty"`
}

// passAll answers that every node will do, in the caller's own bytes.
func passAll(a *ask) filterResult {
	var r filterResult
	if isSet(a.Nodes) {
		r.Nodes = a.Nodes
	}
	if isSet(a.NodeNames) {
		r.NodeNames = a.NodeNames
	}
	return r
}

// pick answers that the nodes of o which keep holds for will do; the others get
// why. Preemption could free none of those: hence unresolvable.
func pick(o offer, keep func(node string) bool, why string) (filterResult, error) {
	names, items := []string{}, []json.RawMessage{}
	r := filterResult{FailedAndUnresolvableNodes: extenderv1.FailedNodesMap{}}
	for i, name := range o.names {
		switch {
		case !keep(name):
			r.FailedAndUnresolvableNodes[name] = why
		case o.items != nil:
			items = append(items, o.items[i])
		default:
			names = append(names, name)
		}
	}
	var err error
	if o.items != nil {
		r.Nodes, err = json.Marshal(map[string]any{"items": items})
	} else {
		r.NodeNames, err = json.Marshal(names)
	}
	return r, err
}

// filter answers a filter call by v.
func filter(a *ask, o offer, v verdict) (filterResult, error) {
	switch v.kind {
	case only:
		return pick(o, func(node string) bool { return node == v.target }, v.why)
	case withhold:
		return pick(o, func(string) bool { return false }, v.why)
	case avoid:
		return pick(o, func(node string) bool { return !slices.Contains(v.sources, node) }, v.why)
	}
	return passAll(a), nil
}

// prioritize scores the nodes of o for v; no node has a score where it says
// nothing, which leaves the scheduler's own.
func prioritize(o offer, v verdict) extenderv1.HostPriorityList {
	scores := extenderv1.HostPriorityList{}
	if v.kind == pass {
		return scores
	}
	for _, name := range o.names {
		score := extenderv1.MaxExtenderPriority / 2
		switch {
		case name == v.target:
			score = extenderv1.MaxExtenderPriority
		case slices.Contains(v.sources, name):
			score = extenderv1.MinExtenderPriority
		}
		scores = append(scores, extenderv1.HostPriority{Host: name, Score: score})
	}
	return scores
}

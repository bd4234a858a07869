// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"encoding/json"
	"slices"

	extenderv1 "k8s.io/kube-scheduler/extender/v1"
)

// filterResult is an ExtenderFilterResult whose nodes are in the form that they
// came in, and whose map is written out: sorting it, as maps are encoded, would
// take longer than all the rest.
type filterResult struct {
	Nodes                      json.RawMessage `json:",omitempty"`
	NodeNames                  json.RawMessage `json:",omitempty"`
	FailedAndUnresolvableNodes json.RawMessage `json:",omitempty"`
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
func pick(o offer, keep func(node string) bool, why string) filterResult {
	reason := quoted(nil, why)
	failed := []byte{'{'}
	kept := []byte{'['}
	for i, name := range o.names {
		switch {
		case !keep(name):
			failed = append(quoted(comma(failed), name), ':')
			failed = append(failed, reason...)
		case o.items != nil:
			kept = append(comma(kept), o.items[i]...)
		default:
			kept = quoted(comma(kept), name)
		}
	}
	r := filterResult{FailedAndUnresolvableNodes: append(failed, '}')}
	kept = append(kept, ']')
	if o.items != nil {
		r.Nodes = append(append([]byte(`{"items":`), kept...), '}')
	} else {
		r.NodeNames = kept
	}
	return r
}

// comma appends what stands before a further element of a list or object.
func comma(to []byte) []byte {
	if len(to) > 1 {
		return append(to, ',')
	}
	return to
}

// quoted appends s as a JSON string.
func quoted(to []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			data, _ := json.Marshal(s) // a string always has a form
			return append(to, data...)
		}
	}
	return append(append(append(to, '"'), s...), '"')
}

// filter answers a filter call by v.
func filter(a *ask, o offer, v verdict) filterResult {
	switch v.kind {
	case only:
		return pick(o, func(node string) bool { return node == v.target }, v.why)
	case withhold:
		return pick(o, func(string) bool { return false }, v.why)
	case avoid:
		return pick(o, func(node string) bool { return !slices.Contains(v.sources, node) }, v.why)
	}
	return passAll(a)
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

// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"encoding/json"
	"errors"
	"fmt"
)

// ask is what the extender reads of an ExtenderArgs
// (k8s.io/kube-scheduler/extender/v1): of the pod who it is, and the nodes. The
// rest of the pod is skipped, and the nodes stay as they came until someone
// needs to know them, since most pods carry no directive and pass.
type ask struct {
	Pod struct {
		Metadata struct {
			Name            string
			Namespace       string
			UID             string
			OwnerReferences []struct {
				UID        string
				Controller *bool
			}
		}
		Status struct{ NominatedNodeName string }
	}
	// Nodes is a NodeList and NodeNames a list of names; the scheduler sends
	// one of them.
	Nodes, NodeNames json.RawMessage
}

// decodeAsk reads the body of a call.
func decodeAsk(body []byte) (*ask, error) {
	var a ask
	if err := json.Unmarshal(body, &a); err != nil {
		return nil, fmt.Errorf("ExtenderArgs: %w", err)
	}
	if a.Pod.Metadata.UID == "" {
		return nil, errors.New("ExtenderArgs: Pod.metadata.uid: absent: required")
	}
	return &a, nil
}

// pod returns who asks.
func (a *ask) pod() podRef {
	m := &a.Pod.Metadata
	return podRef{UID: m.UID, Namespace: m.Namespace, Name: m.Name}
}

// owner returns the UID of the pod's controller; empty: none.
func (a *ask) owner() string {
	for _, r := range a.Pod.Metadata.OwnerReferences {
		if r.Controller != nil && *r.Controller {
			return r.UID
		}
	}
	return ""
}

// offer is the nodes of a call, by name, and in the form that they came in.
type offer struct {
	names []string
	// items holds the node of each name where whole nodes were sent.
	items []json.RawMessage
}

func (a *ask) offer() (offer, error) {
	var o offer
	if isSet(a.NodeNames) {
		if err := json.Unmarshal(a.NodeNames, &o.names); err != nil {
			return o, fmt.Errorf("ExtenderArgs: NodeNames: %w", err)
		}
		return o, nil
	}
	if !isSet(a.Nodes) {
		return o, nil
	}
	var list struct{ Items []json.RawMessage }
	if err := json.Unmarshal(a.Nodes, &list); err != nil {
		return o, fmt.Errorf("ExtenderArgs: Nodes: %w", err)
	}
	for i, raw := range list.Items {
		var node struct{ Metadata struct{ Name string } }
		if err := json.Unmarshal(raw, &node); err != nil {
			return o, fmt.Errorf("ExtenderArgs: Nodes: items[%d]: %w", i, err)
		}
		o.names = append(o.names, node.Metadata.Name)
	}
	o.items = list.Items
	return o, nil
}

func isSet(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// podRef names one pod.
type podRef struct {
	UID, Namespace, Name string
}

func (p podRef) String() string { return p.Namespace + "/" + p.Name }

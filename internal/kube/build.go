// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"cmp"
	"slices"
	"strings"

	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/edgeweir/weir/internal/cluster"
)

// Settings say what Build makes of the objects.
type Settings struct {
	// Cluster is the cluster's name in Redis keys.
	Cluster string
	// Node narrows the view to one node, whose agent knows its own pods alone:
	// those of others are taken from the EndpointSlices. Empty: the whole
	// cluster, with every pod among the objects.
	Node string
}

// builder holds what Build knows of the objects. Each of its parts is filled
// once, in the order of Build.
type builder struct {
	*Objects
	settings  Settings
	problems  []cluster.Problem
	nodes     map[string]*nodeState
	workloads *workloads
	slices    map[string][]*discoveryv1.EndpointSlice // by Service, namespace/name
	targeted  map[string]bool                         // pods that a slice names
	managed   []*managed
	selected  *selectors[*managed]
	budgets   *selectors[*budget]
	instances map[string]*instance // managed pods, by namespace/name
}

// Build returns the cluster that the objects make: a pure function of them. It
// holds the managed Services, the pods behind them and every node; what is wrong
// with an object is among the problems. All lists are sorted.
func Build(o *Objects, s Settings) *cluster.Cluster {
	b := &builder{Objects: o, settings: s, nodes: map[string]*nodeState{}, instances: map[string]*instance{}}
	b.slices, b.targeted = slicesByService(o.Slices)
	b.readNodes()
	b.workloads = newWorkloads(o)
	b.readServices()
	b.readBudgets()
	b.readPods()
	b.readEndpoints()
	b.joinWorkloads()
	c := &cluster.Cluster{Version: cluster.Version, Name: s.Cluster, Services: b.services(), Pods: b.pods()}
	c.Nodes = b.finishNodes(c.Pods)
	c.Problems = sortedProblems(b.problems)
	return c
}

// sortedProblems returns each problem once: the pods of a template share theirs.
func sortedProblems(problems []cluster.Problem) []cluster.Problem {
	slices.SortFunc(problems, func(a, b cluster.Problem) int {
		return cmp.Or(strings.Compare(a.Object, b.Object), strings.Compare(a.Field, b.Field), strings.Compare(a.Value, b.Value), strings.Compare(a.Allowed, b.Allowed))
	})
	return slices.Compact(problems)
}

func (b *builder) problem(object string) func(field, value, allowed string) {
	return problemOf(&b.problems, object)
}

// unread says whether a kind could not be read.
func (b *builder) unread(k Kind) bool { return slices.Contains(b.Unread, k) }

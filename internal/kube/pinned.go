// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// budget is a PodDisruptionBudget.
type budget struct {
	name    string
	allowed int32
}

func (b *builder) readBudgets() {
	b.budgets = newSelectors[*budget]()
	for _, o := range b.Budgets {
		selector, err := metav1.LabelSelectorAsSelector(o.Spec.Selector)
		if err != nil || o.Spec.Selector == nil {
			continue // the API server refuses such a one
		}
		b.budgets.add(o.Namespace, selector, o.Spec.Selector.MatchLabels, &budget{o.Name, allowedOf(o)})
	}
}

// allowedOf returns how many pods may be evicted now. A status that is older
// than the budget allows none, as the API server has it.
func allowedOf(o *policyv1.PodDisruptionBudget) int32 {
	if o.Status.ObservedGeneration < o.Generation {
		return 0
	}
	return o.Status.DisruptionsAllowed
}

// mover are the controllers that put a pod that was evicted somewhere else.
var movers = []string{"ReplicaSet", "StatefulSet", "ReplicationController"}

// pinned says why a pod has to stay at its node; empty: it may move.
func (b *builder) pinned(i *instance, owner *metav1.OwnerReference) string {
	p := i.object
	_, mirror := p.Annotations[mirrorAnnotation]
	switch {
	case mirror:
		return "a static pod"
	case owner == nil:
		return "no controller would replace it"
	case !slices.Contains(movers, owner.Kind):
		return fmt.Sprintf("a %s controls it", owner.Kind)
	case p.DeletionTimestamp != nil:
		return "it is being deleted"
	}
	if why := unmovable(i); why != "" {
		return why
	}
	return b.budgeted(p)
}

// unmovable says why those who declared the pod want it to stay; a pod that is
// annotated as movable is, whatever it keeps on its node.
func unmovable(i *instance) string {
	movable, where := i.movable, "annotated"
	for _, m := range i.services {
		if movable == nil && m.movable != nil {
			movable, where = m.movable, "annotated at Service "+m.name
		}
	}
	evict := i.object.Annotations[safeToEvictAnnotation]
	switch {
	case movable != nil && *movable:
		return ""
	case movable != nil:
		return where + " as not movable"
	case evict == "false":
		return "annotated as not safe to evict"
	case evict == "true":
		return ""
	}
	return held(i.object.Spec.Volumes)
}

// held says which volume may hold a pod at its node.
func held(volumes []corev1.Volume) string {
	for _, v := range volumes {
		switch {
		case v.HostPath != nil, v.EmptyDir != nil && v.EmptyDir.Medium != corev1.StorageMediumMemory:
			return fmt.Sprintf("local storage: volume %s", v.Name)
		case v.PersistentVolumeClaim != nil, v.Ephemeral != nil:
			return fmt.Sprintf("volume %s may be bound to its node", v.Name)
		}
	}
	return ""
}

// budgeted says which PodDisruptionBudget lets no pod go.
func (b *builder) budgeted(p *corev1.Pod) string {
	matching := b.budgets.match(p.Namespace, p.Labels)
	if len(matching) > 1 {
		return fmt.Sprintf("%d PodDisruptionBudgets: the API server evicts no such pod", len(matching))
	}
	for _, o := range matching {
		if o.allowed <= 0 {
			return fmt.Sprintf("PodDisruptionBudget %s allows no disruption", o.name)
		}
	}
	return ""
}

// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
)

// selectors finds whose label selectors match a pod, without trying them all:
// each is filed under one of the labels that it demands.
type selectors[T any] struct {
	filed map[filing][]selecting[T]
	rest  map[string][]selecting[T] // by namespace: those that demand no value
}

type filing struct{ namespace, label, value string }

type selecting[T any] struct {
	selector labels.Selector
	owner    T
}

func newSelectors[T any]() *selectors[T] {
	return &selectors[T]{filed: map[filing][]selecting[T]{}, rest: map[string][]selecting[T]{}}
}

// add files owner's selector; exact are the labels that it demands with their
// values.
func (s *selectors[T]) add(namespace string, selector labels.Selector, exact map[string]string, owner T) {
	entry := selecting[T]{selector, owner}
	if len(exact) == 0 {
		s.rest[namespace] = append(s.rest[namespace], entry)
		return
	}
	label := slices.Min(slices.Collect(maps.Keys(exact)))
	at := filing{namespace, label, exact[label]}
	s.filed[at] = append(s.filed[at], entry)
}

// match returns the owners whose selectors match.
func (s *selectors[T]) match(namespace string, set map[string]string) []T {
	var owners []T
	take := func(entries []selecting[T]) {
		for _, e := range entries {
			if e.selector.Matches(labels.Set(set)) {
				owners = append(owners, e.owner)
			}
		}
	}
	for label, value := range set {
		take(s.filed[filing{namespace, label, value}])
	}
	take(s.rest[namespace])
	return owners
}

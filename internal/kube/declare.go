// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/edgeweir/weir/internal/cluster"
)

// UnknownAnnotation is the field of a problem with an annotation that doesn't
// exist: its own name could be anything.
const UnknownAnnotation = Prefix + "*"

// costPrefix begins the names of the annotations of task costs.
const costPrefix = "cost."

// resourceName is the name of a resource in an annotation's name.
var resourceName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?$`)

// declared reads the annotations of an object of a kind. A bad one leaves its
// default in force and is told to problem.
func declared(kind string, annotations map[string]string, problem func(field, value, allowed string)) declaration {
	d := declaration{}
	for _, full := range slices.Sorted(maps.Keys(annotations)) {
		name, ours := strings.CutPrefix(full, Prefix)
		if !ours {
			continue
		}
		a, resource, known := find(kind, name)
		if !known {
			problem(UnknownAnnotation, name, "an annotation for a "+kind+" that docs/annotations.md lists")
			continue
		}
		d.cost = resource
		if value := annotations[full]; !a.set(&d, value) {
			problem(Prefix+a.Name, value, a.Allowed)
		}
	}
	if d.service.MaxReplicas != 0 && d.service.MaxReplicas < d.service.MinReplicas {
		problem(Prefix+"max-replicas", fmt.Sprint(d.service.MaxReplicas), fmt.Sprintf("at least min-replicas, %d", d.service.MinReplicas))
		d.service.MaxReplicas = 0
	}
	return d
}

// find returns the annotation of that name for a kind, and the resource in the
// name where it has one.
func find(kind, name string) (Annotation, string, bool) {
	for _, a := range Annotations {
		if !slices.Contains(a.On, kind) {
			continue
		}
		if a.Name == name && !a.everyResource {
			return a, "", true
		}
		if resource, ok := strings.CutPrefix(name, costPrefix); ok && a.everyResource && resourceName.MatchString(resource) {
			return a, resource, true
		}
	}
	return Annotation{}, "", false
}

// longest is how much of a bad value is told.
const longest = 64

// shortened returns value as it may stand in a line.
func shortened(value string) string {
	value = strings.ToValidUTF8(value, "\uFFFD")
	if runes := []rune(value); len(runes) > longest {
		return string(runes[:longest]) + "…"
	}
	return value
}

// problemOf tells problems of one object.
func problemOf(to *[]cluster.Problem, object string) func(field, value, allowed string) {
	return func(field, value, allowed string) {
		*to = append(*to, cluster.Problem{Object: object, Field: field, Value: shortened(value), Allowed: allowed})
	}
}

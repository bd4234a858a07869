// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"math"
	"slices"
)

// path is where a field lies, such as "nodes[3]".
type path string

func pathTo(list string, i int) path { return path(fmt.Sprintf("%s[%d]", list, i)) }

func (p path) field(name string) string { return string(p) + "." + name }

// amount accepts finite numbers from 0.
func amount(at path, field string, v float64) error {
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return bad(at.field(field), v, "want a finite number")
	case v < 0:
		return bad(at.field(field), v, "want 0 or more")
	}
	return nil
}

func positive(at path, field string, v float64) error {
	if v == 0 {
		return bad(at.field(field), v, "want more than 0")
	}
	return amount(at, field, v)
}

func share(at path, field string, v float64) error {
	if !(v >= 0 && v <= 1) {
		return bad(at.field(field), v, "want 0 to 1")
	}
	return nil
}

// amounts accepts quantities of known names, and of the network where a node is meant. Of several faults the
// alphabetically first is told.
func amounts(at path, field string, q Quantities, known map[string]int32, network bool) error {
	var wrong []string
	for name, v := range q {
		_, ok := known[name]
		if (!ok && !(network && name == NetworkResource)) || !(v >= 0) || math.IsInf(v, 0) {
			wrong = append(wrong, name)
		}
	}
	if wrong == nil {
		return nil
	}
	name := slices.Min(wrong)
	if _, ok := known[name]; !ok && !(network && name == NetworkResource) {
		return bad(at.field(field), name, "unknown name")
	}
	return amount(at, field+"."+name, q[name])
}

func exists(at path, field, name string, known map[string]int32) error {
	if _, ok := known[name]; !ok {
		return bad(at.field(field), fmt.Sprintf("%q", name), "unknown name")
	}
	return nil
}

// allExist accepts lists of known names without doubles.
func allExist(at path, field string, list []string, known map[string]int32) error {
	for i, name := range list {
		_, ok := known[name]
		switch {
		case !ok:
			return bad(at.field(fmt.Sprintf("%s[%d]", field, i)), fmt.Sprintf("%q", name), "unknown name")
		case slices.Contains(list[:i], name):
			return bad(at.field(fmt.Sprintf("%s[%d]", field, i)), name, "comes twice")
		}
	}
	return nil
}

// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// The page of the annotations holds the code's table, row by row.
func TestPageListsTheAnnotations(t *testing.T) {
	page, err := os.ReadFile("../../docs/annotations.md")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(string(page)) {
		if strings.HasPrefix(line, "| `"+Prefix) {
			got = append(got, strings.TrimSpace(line))
		}
	}
	for i, a := range Annotations {
		want := row(a)
		if i >= len(got) || got[i] != want {
			t.Errorf("docs/annotations.md lacks, as row %d:\n%s", i+1, want)
		}
	}
	if len(got) != len(Annotations) {
		t.Errorf("docs/annotations.md has %d rows, the code %d annotations", len(got), len(Annotations))
	}
}

func row(a Annotation) string {
	return fmt.Sprintf("| `%s%s` | %s | %s | %s | %s | `%s` | %s |",
		Prefix, a.Name, strings.Join(a.On, ", "), a.Type, a.Default, a.Allowed, a.Example, a.Meaning)
}

// Each example of the table is a value that the annotation allows.
func TestExamplesAreAllowed(t *testing.T) {
	for _, a := range Annotations {
		if !a.set(&declaration{cost: "cpu"}, a.Example) {
			t.Errorf("%s: its example %q is refused", a.Name, a.Example)
		}
	}
}

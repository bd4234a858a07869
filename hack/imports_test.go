// SPDX-License-Identifier: Apache-2.0

// Package hack holds the scripts behind the Makefile. Its test shows that the
// linter's import rules catch what they forbid, and nothing else.
package hack

import (
	"cmp"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

var (
	// "/dir/nodeagent/x.go:6:2: import '…' is not allowed from list 'RULE': why"
	finding = regexp.MustCompile(`(?m)^(\S+\.go):(\d+):\d+: import .* from list '([^']+)'(.*)$`)
	want    = regexp.MustCompile(`// want (.*)$`)
	rule    = regexp.MustCompile(`(?m)^([a-z-]+):$`)
)

func TestImportRulesCatchViolations(t *testing.T) {
	archive, err := txtar.ParseFile("testdata/imports.txtar")
	if err != nil {
		t.Fatal(err)
	}
	rules, err := os.ReadFile("../.depguard.yml")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	archive.Files = append(archive.Files, txtar.File{Name: ".depguard.yml", Data: rules})
	for _, f := range archive.Files {
		writeFile(t, filepath.Join(dir, f.Name), f.Data)
	}

	expected := wanted(archive)
	found := violations(t, dir)
	for place := range maps.Keys(expected) {
		if !found[place] {
			t.Errorf("%s is not caught", place)
		}
	}
	for place := range maps.Keys(found) {
		if !expected[place] {
			t.Errorf("%s is caught, though it is allowed", place)
		}
	}
	for _, m := range rule.FindAllStringSubmatch(string(rules), -1) {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(expected)), func(p string) bool { return strings.HasSuffix(p, " "+m[1]) }) {
			t.Errorf("rule %s has no violation in testdata/imports.txtar", m[1])
		}
	}
}

// wanted returns "file:line rule" for each "// want RULE…" of the archive.
func wanted(archive *txtar.Archive) map[string]bool {
	places := map[string]bool{}
	for _, f := range archive.Files {
		for i, line := range strings.Split(string(f.Data), "\n") {
			if m := want.FindStringSubmatch(line); m != nil {
				for _, name := range strings.Fields(m[1]) {
					places[f.Name+":"+strconv.Itoa(i+1)+" "+name] = true
				}
			}
		}
	}
	return places
}

// violations runs the linter in dir and returns "file:line rule" of what it finds.
func violations(t *testing.T, dir string) map[string]bool {
	t.Helper()
	tool, err := exec.Command("go", "tool", "-n", "depguard").Output()
	if err != nil {
		t.Fatalf("go tool -n depguard: %v", err)
	}
	lint := exec.Command(strings.TrimSpace(string(tool)), "./...")
	lint.Dir = dir
	out, err := lint.CombinedOutput()
	if err == nil {
		t.Fatalf("the linter finds nothing:\n%s", out)
	}
	places := map[string]bool{}
	for _, m := range finding.FindAllStringSubmatch(string(out), -1) {
		name, err := filepath.Rel(dir, m[1])
		if err != nil {
			t.Fatal(err)
		}
		places[name+":"+m[2]+" "+m[3]] = true
	}
	if len(places) == 0 {
		t.Fatalf("no finding in the linter's output:\n%s", out)
	}
	return places
}

func writeFile(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := cmp.Or(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, data, 0o644)); err != nil {
		t.Fatal(err)
	}
}

// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden files")

const snapshots = "../../optimizer/model/testdata"

// solve runs the command as main does and returns what it prints, without the solving time.
func solve(t *testing.T, stdin string, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(strings.NewReader(stdin))
	root.SetOut(&out)
	root.SetErr(&out)
	err := root.ExecuteContext(context.Background())
	return regexp.MustCompile(`"solveMillis":[0-9.e+-]+`).ReplaceAllString(out.String(), `"solveMillis":0`), err
}

// Each model on the contract's own example, on odd values, and on a cluster of its
// own where there is more to decide.
func TestSolveGolden(t *testing.T) {
	shared, err := filepath.Glob(snapshots + "/*.json")
	if err != nil || len(shared) == 0 {
		t.Fatalf("snapshots: %v, %v", shared, err)
	}
	for model, files := range map[string][]string{
		"dispatch":  shared,
		"migration": {snapshots + "/example.json", snapshots + "/edge.json", "testdata/lopsided.json"},
		"scaling":   {snapshots + "/example.json", snapshots + "/edge.json", "testdata/crowded.json"},
	} {
		for _, file := range files {
			name := strings.TrimSuffix(filepath.Base(file), ".json") + "." + model
			t.Run(name, func(t *testing.T) {
				got, err := solve(t, "", "solve", model, "-f", file)
				if err != nil {
					t.Fatal(err)
				}
				golden := filepath.Join("testdata", name+".golden")
				if *update {
					if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
						t.Fatal(err)
					}
				}
				want, err := os.ReadFile(golden)
				if err != nil {
					t.Fatal(err)
				}
				if got != string(want) {
					t.Errorf("got\n%s\nwant\n%s", got, want)
				}
			})
		}
	}
}

func TestSolveReadsStandardInput(t *testing.T) {
	data, err := os.ReadFile(snapshots + "/example.json")
	if err != nil {
		t.Fatal(err)
	}
	got, err := solve(t, string(data), "solve", "dispatch", "-f", "-")
	if err != nil || !strings.Contains(got, `"served":40`) {
		t.Errorf("got %s, %v", got, err)
	}
}

func TestSolveErrorsAreOneLine(t *testing.T) {
	for name, c := range map[string]struct {
		stdin, want string
		args        []string
	}{
		"bad field":     {`{"version": 1, "x": 1}`, "-: snapshot: x: unknown field", []string{"solve", "dispatch", "-f", "-"}},
		"future":        {`{"version": 2}`, "-: snapshot: version: 2: this build reads version 1", []string{"solve", "dispatch", "-f", "-"}},
		"no file":       {"", `required flag(s) "file" not set`, []string{"solve", "dispatch"}},
		"missing file":  {"", "read snapshot: open nowhere.json: no such file or directory", []string{"solve", "dispatch", "-f", "nowhere.json"}},
		"unknown model": {"", `unknown command "weather" for "optimizer solve"`, []string{"solve", "weather"}},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := solve(t, c.stdin, c.args...)
			if err == nil || err.Error() != c.want {
				t.Errorf("error %v, want %s", err, c.want)
			}
			if out != "" {
				t.Errorf("printed %q", out)
			}
		})
	}
}

// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/edgeweir/weir/internal/testenv"
)

func TestQuoteSurvivesTheShell(t *testing.T) {
	for _, want := range []string{"", "a b", "it's", `"$HOME" \ ;`, "line\nbreak", "'''"} {
		out, err := exec.Command("sh", "-c", "printf %s "+quote(want)).Output()
		if err != nil || string(out) != want {
			t.Errorf("quote(%q): the shell read %q, error %v", want, out, err)
		}
	}
}

func TestParseDependsLoadsDependenciesFirst(t *testing.T) {
	got := parseDepends("fs/9p/9p.ko.xz: net/9p/9pnet.ko.xz fs/netfs/netfs.ko.xz\nfs/netfs/netfs.ko.xz:\n")
	want := "fs/netfs/netfs.ko.xz net/9p/9pnet.ko.xz fs/9p/9p.ko.xz"
	if s := strings.Join(got["9p"], " "); s != want {
		t.Errorf("9p loads %q, want %q", s, want)
	}
	if len(got["netfs"]) != 1 {
		t.Errorf("netfs loads %q, want itself only", got["netfs"])
	}
}

func TestCachedTakesTheNewestOfTheSeries(t *testing.T) {
	cache := t.TempDir()
	for _, v := range []string{"6.12.9+deb13-amd64", "6.12.117+deb13-amd64", "6.13.999+deb14-amd64", "fetch-1"} {
		if err := os.Mkdir(filepath.Join(cache, v), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if k, ok := cached(cache); !ok || k.Version != "6.12.117+deb13-amd64" {
		t.Errorf("cached: %+v, %v", k, ok)
	}
	if k, ok := cached(t.TempDir()); ok {
		t.Errorf("an empty cache holds %+v", k)
	}
}

func TestDeathNamesThePanic(t *testing.T) {
	err := &DeathError{Console: "[ 3.6] Kernel panic - not syncing: Attempted to kill init!\nCPU: 0\n"}
	if got := err.Error(); !strings.Contains(got, "kernel panic: Attempted to kill init!;") {
		t.Errorf("error is %q", got)
	}
}

func TestRunRefusesWhatItCannotDo(t *testing.T) {
	for name, cfg := range map[string]Config{
		"no command":     {},
		"comma in share": {Command: []string{"true"}, Shares: []string{"/tmp/a,b"}},
	} {
		if _, err := Run(t.Context(), cfg); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// arrivals notes when each write came.
type arrivals struct {
	text        strings.Builder
	first, last time.Time
}

func (a *arrivals) Write(p []byte) (int, error) {
	a.last = time.Now()
	if a.first.IsZero() {
		a.first = a.last
	}
	return a.text.Write(p)
}

// One boot shows what costs none to tell apart: kernel, arguments, directory,
// environment, streams, clock, shares and exit status.
func TestRunInGuest(t *testing.T) {
	testenv.Require(t, testenv.Qemu)
	share := filepath.Join(t.TempDir(), "a share")
	hidden := filepath.Join(t.TempDir(), "hidden")
	const script = `
		uname -r; pwd; echo "$WORD|$1|$2"; id -u; date +%s
		echo complaint >&2
		echo kept >"$3/file"; echo lost >"$4"
		sleep 2
		echo end; exit 7`
	var stdout arrivals
	var stderr bytes.Buffer
	started := time.Now()
	code, err := Run(t.Context(), Config{
		Command:  []string{"sh", "-c", script, "sh", "it's  one", "", share, hidden},
		Dir:      "/usr/share",
		Env:      []string{"WORD=two words"},
		Shares:   []string{share},
		Deadline: 3 * time.Minute,
		Stdout:   &stdout,
		Stderr:   &stderr,
	})
	if err != nil || code != 7 {
		t.Fatalf("exit status %d, error %v; want 7\n%s", code, err, stderr.String())
	}
	lines := strings.Split(stdout.text.String(), "\n")
	if len(lines) != 7 {
		t.Fatalf("standard output is %q", stdout.text.String())
	}
	if !strings.HasPrefix(lines[0], series) || lines[1] != "/usr/share" || lines[2] != "two words|it's  one|" ||
		lines[3] != "0" || lines[5] != "end" {
		t.Errorf("standard output is %q", stdout.text.String())
	}
	if now, err := time.ParseDuration(lines[4] + "s"); err != nil ||
		time.Unix(int64(now.Seconds()), 0).Before(started.Add(-2*time.Second)) ||
		time.Unix(int64(now.Seconds()), 0).After(time.Now().Add(2*time.Second)) {
		t.Errorf("the guest's clock says %s, the host's %d", lines[4], time.Now().Unix())
	}
	if stderr.String() != "complaint\n" {
		t.Errorf("standard error is %q", stderr.String())
	}
	if d := stdout.last.Sub(stdout.first); d < time.Second {
		t.Errorf("output came within %v: it is not streamed", d)
	}
	if b, err := os.ReadFile(filepath.Join(share, "file")); err != nil || string(b) != "kept\n" {
		t.Errorf("the share holds %q, error %v", b, err)
	}
	if _, err := os.Stat(hidden); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a write outside the shares reached the host: %v", err)
	}
}

func TestRunEndsWithTheGuest(t *testing.T) {
	testenv.Require(t, testenv.Qemu)
	code, err := Run(t.Context(), Config{
		Command:  []string{"sh", "-c", "echo c >/proc/sysrq-trigger"},
		Deadline: 3 * time.Minute,
	})
	var death *DeathError
	if !errors.As(err, &death) || !strings.Contains(err.Error(), "kernel panic: sysrq triggered crash") ||
		ExitCode(code, err) != 125 {
		t.Errorf("after a panic: status %d, error %v", code, err)
	}
	_, err = Run(t.Context(), Config{Command: []string{"sleep", "1000"}, Deadline: 2 * time.Second})
	if !errors.Is(err, ErrDeadline) || ExitCode(0, err) != 124 {
		t.Errorf("at the deadline: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(2*time.Second, cancel)
	_, err = Run(ctx, Config{Command: []string{"sleep", "1000"}})
	if !errors.Is(err, context.Canceled) || ExitCode(0, err) != 130 {
		t.Errorf("when cancelled: %v", err)
	}
}

// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// kwokStages are the folders of kwok's own module that make pods run at once and
// nodes keep their leases, as kubelets do.
var kwokStages = []string{"node/fast", "node/heartbeat-with-lease", "pod/fast"}

// Build makes the named binaries where they are missing (a cold build takes some
// 20 minutes on two busy cores) and tells progress to out. A second builder waits
// for the first.
func Build(ctx context.Context, out io.Writer, names ...string) (Release, error) {
	r, err := Current()
	if err != nil || r.Has(names...) {
		return r, err
	}
	if err := os.MkdirAll(filepath.Join(r.Dir, "src"), 0o755); err != nil {
		return r, fmt.Errorf("make the control plane's cache: %w", err)
	}
	unlock, err := lock(ctx, filepath.Join(r.Dir, "lock"), out)
	if err != nil {
		return r, err
	}
	defer unlock()
	if err := r.writeModule(); err != nil {
		return r, err
	}
	if err := r.copyStages(ctx); err != nil {
		return r, err
	}
	for i, name := range names {
		if r.Has(name) {
			continue
		}
		if err := r.build(ctx, out, fmt.Sprintf("%s (%d of %d)", name, i+1, len(names)), name); err != nil {
			return r, err
		}
	}
	return r, nil
}

// lock waits for the lock file; it is freed when its holder ends, however it does.
func lock(ctx context.Context, path string, out io.Writer) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lock the control plane's cache: %w", err)
	}
	for told := false; ; told = true {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !told {
			fmt.Fprintln(out, "cluster-build: waiting for another build")
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, fmt.Errorf("lock %s: %w", path, ctx.Err())
		case <-time.After(time.Second):
		}
	}
}

func (r Release) writeModule() error {
	for name, data := range map[string][]byte{"go.mod": goMod, "go.sum": goSum} {
		if err := os.WriteFile(filepath.Join(r.Dir, "src", name), data, 0o644); err != nil {
			return fmt.Errorf("write the control plane's module: %w", err)
		}
	}
	return nil
}

// copyStages takes kwok's stage files out of its module.
func (r Release) copyStages(ctx context.Context) error {
	cmd := goCommand(ctx, filepath.Join(r.Dir, "src"), "mod", "download", "-json", kwokModule)
	answer, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("fetch %s: %w: %s", kwokModule, err, answer)
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(answer, &module); err != nil {
		return fmt.Errorf("fetch %s: %w", kwokModule, err)
	}
	if err := os.MkdirAll(filepath.Join(r.Dir, "stages"), 0o755); err != nil {
		return fmt.Errorf("make the folder of stages: %w", err)
	}
	for _, stage := range kwokStages {
		files, err := filepath.Glob(filepath.Join(module.Dir, "kustomize", "stage", stage, "*.yaml"))
		if err != nil || len(files) == 0 {
			return fmt.Errorf("%s has no stage %s (%v)", kwokModule, stage, err)
		}
		for _, f := range files {
			if filepath.Base(f) == "kustomization.yaml" {
				continue
			}
			data, err := os.ReadFile(f)
			if err != nil {
				return fmt.Errorf("read a stage: %w", err)
			}
			if err := os.WriteFile(filepath.Join(r.Dir, "stages", filepath.Base(f)), data, 0o644); err != nil {
				return fmt.Errorf("copy a stage: %w", err)
			}
		}
	}
	return nil
}

// build compiles one binary at low priority and tells every 15 s that it does.
func (r Release) build(ctx context.Context, out io.Writer, label, name string) error {
	began := time.Now()
	temp := filepath.Join(r.Dir, "bin", "."+name)
	var cmd *exec.Cmd
	if name == Kwok { // it panics when built together with Kubernetes' modules
		cmd = goCommand(ctx, r.Dir, "install", "-p", "2", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", packages[name]+"@"+KwokVersion)
		temp = filepath.Join(r.Dir, "install", name)
		cmd.Env = append(cmd.Env, "GOBIN="+filepath.Dir(temp))
	} else {
		cmd = goCommand(ctx, filepath.Join(r.Dir, "src"), "build", "-p", "2", "-trimpath", "-buildvcs=false", "-ldflags="+linkFlags, "-o", temp, packages[name])
	}
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("build %s: %w", name, err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	fmt.Fprintf(out, "cluster-build: %s …\n", label)
	for tick := time.NewTicker(15 * time.Second); ; {
		select {
		case <-tick.C:
			fmt.Fprintf(out, "cluster-build: %s … %.0f s\n", label, time.Since(began).Seconds())
		case err := <-done:
			tick.Stop()
			if err != nil {
				return fmt.Errorf("build %s: %w\n%s", name, err, lastLines(said.String(), 30))
			}
			fmt.Fprintf(out, "cluster-build: %s built in %.0f s\n", label, time.Since(began).Seconds())
			return place(temp, r.Binary(name))
		}
	}
}

// place moves a finished binary to where Has looks for it.
func place(from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return fmt.Errorf("place %s: %w", to, err)
	}
	if err := os.Rename(from, to); err != nil {
		return fmt.Errorf("place %s: %w", to, err)
	}
	return nil
}

// goCommand runs the go tool of this build at low priority, away from the
// settings of the module under test.
func goCommand(ctx context.Context, dir string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "nice", append([]string{"-n", "10", "go"}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")
	return cmd
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

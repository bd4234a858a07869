// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// orphanage makes the test binary start a process and wait to be killed.
const orphanage = "WEIR_TEST_ORPHANAGE"

func TestMain(m *testing.M) {
	if dir := os.Getenv(orphanage); dir != "" {
		p := sleeper(dir)
		if err := p.Start(context.Background()); err != nil {
			panic(err)
		}
		fmt.Println(p.PID())
		select {}
	}
	os.Exit(m.Run())
}

// sleeper is a process that does nothing for a minute and is ready at once.
func sleeper(dir string) *Process {
	return NewProcess("sleep", filepath.Join(dir, "log"), func(context.Context) error { return nil }, "sleep", "60")
}

func TestProcessDiesWithItsParent(t *testing.T) {
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), orphanage+"="+t.TempDir())
	out, err := parent.StdoutPipe()
	must(t, err)
	must(t, parent.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	must(t, err)
	child := "/proc/" + strings.TrimSpace(line)
	if _, err := os.Stat(child); err != nil {
		t.Fatalf("the child does not run: %v", err)
	}
	must(t, parent.Process.Kill())
	parent.Wait()
	must(t, Wait(t.Context(), 10*time.Second, func(context.Context) error {
		state, err := os.ReadFile(child + "/stat")
		if err == nil && !strings.Contains(string(state), ") Z ") {
			return errors.New("the child outlives its parent")
		}
		return nil
	}))
}

func TestProcessStopsEvenWhenPaused(t *testing.T) {
	p := sleeper(t.TempDir())
	must(t, p.Start(t.Context()))
	if err := p.Start(t.Context()); err == nil {
		t.Error("a running process starts twice")
	}
	must(t, p.Pause())
	began := time.Now()
	must(t, p.Stop())
	if p.PID() != 0 || time.Since(began) >= stopLimit {
		t.Errorf("a paused process: pid %d after %s", p.PID(), time.Since(began))
	}
	if err := p.Pause(); err == nil {
		t.Error("a stopped process can be paused")
	}
	must(t, p.Stop())
}

func TestProcessThatEndsTellsItsLog(t *testing.T) {
	p := sleeper(t.TempDir())
	p.command, p.ready = []string{"sh", "-c", "echo no such flag; exit 1"}, func(context.Context) error { return errors.New("silent") }
	if err := p.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "no such flag") {
		t.Errorf("start: %v", err)
	}
}

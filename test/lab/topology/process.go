// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Spec says what to start where.
type Spec struct {
	Name      string // of the process in its namespace: names its cgroup, unique while it runs
	Namespace string // one of the layout's
	Command   []string
	Dir       string    // working directory; "" is the present one
	Env       []string  // K=V, added to this process's own
	Log       string    // file that standard output and error are appended to; "" discards
	Stdout    io.Writer // where standard output goes instead, if not nil
}

// Process is a process in the lab.
type Process struct {
	Spec   Spec
	PID    int
	Cgroup string // its cgroup's folder, as the lab's processes see it
	cmd    *exec.Cmd
	done   chan struct{}
	err    error // how it ended; valid once done is closed
}

// Start starts a process in a namespace of the lab. It is killed when this
// process dies. Its end is told by Done.
func (t *Topology) Start(spec Spec) (*Process, error) {
	if len(spec.Command) == 0 {
		return nil, fmt.Errorf("start %s in %s: no command", spec.Name, spec.Namespace)
	}
	p := &Process{Spec: spec, Cgroup: filepath.Join(t.CgroupOf(spec.Namespace), strings.ReplaceAll(spec.Name, "/", "-")), done: make(chan struct{})}
	started := make(chan error, 1)
	// The thread that starts the process must outlive it: at its end the kernel
	// sends the parent death signal.
	go func() {
		_ = onThread(func() error {
			err := t.start(p)
			started <- err
			if err == nil {
				p.err = p.cmd.Wait()
			}
			return nil
		})
		t.mu.Lock()
		delete(t.running, p)
		t.mu.Unlock()
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s in %s: %w", spec.Name, spec.Namespace, err)
	}
	return p, nil
}

// start does the work of Start on a thread that is thrown away.
func (t *Topology) start(p *Process) error {
	dir := t.here(p.Cgroup)
	if err := makeCgroup(dir); err != nil {
		return err
	}
	cgroup, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("open cgroup: %w", err)
	}
	defer cgroup.Close()
	cmd := exec.Command(p.Spec.Command[0], p.Spec.Command[1:]...)
	cmd.Dir = p.Spec.Dir
	cmd.Env = append(os.Environ(), p.Spec.Env...)
	cmd.WaitDelay = time.Second // for descendants that keep the output open
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Setpgid: true, Pdeathsig: syscall.SIGKILL, UseCgroupFD: true, CgroupFD: int(cgroup.Fd()),
	}
	if p.Spec.Log != "" {
		log, err := os.OpenFile(p.Spec.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			return fmt.Errorf("open log: %w", err)
		}
		defer log.Close()
		cmd.Stdout, cmd.Stderr = log, log
	}
	if p.Spec.Stdout != nil {
		cmd.Stdout = p.Spec.Stdout
	}
	if err := t.enterMachine(p.Spec.Namespace); err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	p.cmd, p.PID = cmd, cmd.Process.Pid
	t.mu.Lock()
	t.running[p] = true
	t.mu.Unlock()
	return nil
}

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err tells how the process ended, once Done is closed: nil for exit status 0.
func (p *Process) Err() error { return p.err }

// Signal sends the process a signal.
func (p *Process) Signal(s os.Signal) error { return p.cmd.Process.Signal(s) }

// Wait waits until the process has ended or the context has, and tells how.
func (p *Process) Wait(ctx context.Context) error {
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Stop asks the process to end with SIGTERM and kills it after the grace period.
// An error tells that it had to be killed, or ended with another status than 0
// for another reason than the signal.
func (p *Process) Stop(grace time.Duration) error {
	if err := p.Signal(syscall.SIGTERM); errors.Is(err, os.ErrProcessDone) {
		<-p.done
		return p.err
	}
	select {
	case <-p.done:
	case <-time.After(grace):
		p.kill()
		return fmt.Errorf("stop %s in %s: still running after %v, killed", p.Spec.Name, p.Spec.Namespace, grace)
	}
	var exit *exec.ExitError
	if errors.As(p.err, &exit) {
		if ws, ok := exit.Sys().(syscall.WaitStatus); ok && ws.Signal() == syscall.SIGTERM {
			return nil
		}
	}
	return p.err
}

// kill ends the process at once and waits for it.
func (p *Process) kill() {
	_ = p.Signal(syscall.SIGKILL)
	<-p.done
}

// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// readyLimit is how long a process may take until it answers.
	readyLimit = 60 * time.Second
	// stopLimit is how long a process may take to end when asked politely.
	stopLimit = 10 * time.Second
)

// Process is one component of the cluster. It keeps its ports and files over stop
// and start. It is killed by the kernel when this process dies.
type Process struct {
	Name string
	// Log is the file to which the process writes, through all its starts.
	Log string
	// Metrics is the URL of a scheduler's metrics, which need no token.
	Metrics string

	command []string
	ready   func(context.Context) error

	mu    sync.Mutex
	cmd   *exec.Cmd
	ended chan struct{}
	ends  []time.Time
}

// NewProcess plans a process of a caller's own, such as a server beside the
// cluster: command is its path and arguments, ready says when it answers.
func NewProcess(name, log string, ready func(context.Context) error, command ...string) *Process {
	return &Process{Name: name, Log: log, ready: ready, command: command}
}

// Start starts the process and waits until it answers.
func (p *Process) Start(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running() {
		return fmt.Errorf("start %s: it runs already", p.Name)
	}
	log, err := os.OpenFile(p.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("start %s: %w", p.Name, err)
	}
	defer log.Close()
	cmd := exec.Command(p.command[0], p.command[1:]...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Dir = filepath.Dir(p.Log)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started, ended := make(chan error), make(chan struct{})
	go p.attend(cmd, started, ended)
	if err := <-started; err != nil {
		return fmt.Errorf("start %s: %w", p.Name, err)
	}
	p.cmd, p.ended = cmd, ended
	return p.await(ctx)
}

// attend starts cmd and waits for its end, all on one thread of its own: the
// kernel sends the death signal when the thread that forked ends.
func (p *Process) attend(cmd *exec.Cmd, started chan<- error, ended chan<- struct{}) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := cmd.Start()
	started <- err
	if err != nil {
		return
	}
	cmd.Wait()
	close(ended)
}

func (p *Process) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	for {
		err := p.ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.ended:
			return fmt.Errorf("%s ended before it was ready; %s ends with\n%s", p.Name, p.Log, tail(p.Log))
		case <-ctx.Done():
			return fmt.Errorf("%s does not become ready: %w; see %s", p.Name, err, p.Log)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Stop asks the process to end and waits for it; one that does not is killed.
func (p *Process) Stop() error { return p.end(syscall.SIGTERM) }

// Kill ends the process at once.
func (p *Process) Kill() error { return p.end(syscall.SIGKILL) }

func (p *Process) end(with syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.running() {
		return nil
	}
	err := p.cmd.Process.Signal(with)
	p.cmd.Process.Signal(syscall.SIGCONT)
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("end %s: %w", p.Name, err)
	}
	select {
	case <-p.ended:
	case <-time.After(stopLimit):
		p.cmd.Process.Kill()
		<-p.ended
	}
	p.ends = append(p.ends, time.Now())
	return nil
}

// Pause freezes the process with SIGSTOP; its sockets stay open and unanswered.
func (p *Process) Pause() error { return p.signal(syscall.SIGSTOP) }

// Resume lets a paused process go on.
func (p *Process) Resume() error { return p.signal(syscall.SIGCONT) }

func (p *Process) signal(s syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.running() {
		return fmt.Errorf("signal %s: it does not run", p.Name)
	}
	if err := p.cmd.Process.Signal(s); err != nil {
		return fmt.Errorf("signal %s: %w", p.Name, err)
	}
	return nil
}

// PID is 0 where the process does not run.
func (p *Process) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.running() {
		return 0
	}
	return p.cmd.Process.Pid
}

func (p *Process) running() bool {
	if p.cmd == nil {
		return false
	}
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// endings are the times at which the process was ended through its methods.
func (p *Process) endings() []time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]time.Time(nil), p.ends...)
}

// tail returns the last lines of a log.
func tail(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	return strings.Join(lines[max(0, len(lines)-15):], "\n")
}

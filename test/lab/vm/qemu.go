// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// Emulator is the program that the guest runs under, of Debian's package
// qemu-system-x86.
const Emulator = "qemu-system-x86_64"

// The guest's channels to the host, in the order of their file descriptors,
// which start at 3 in qemu. The first is the serial console, the others are
// virtio ports 1 to 3.
var channels = []string{"console", "stdout", "stderr", "status"}

// qemuArgs returns qemu's command line. Under software emulation the processor is
// an old one: the cmpxchg16b instruction crashed, and so did two processors of the
// newest kind; what those have, wide vectors and guarded access to user memory,
// makes a connection cost a third more.
func qemuArgs(cfg Config, k Kernel, initrd string, kvm bool) []string {
	accel, cpu := "tcg", "Nehalem,-cx16"
	if kvm {
		accel, cpu = "kvm", "host"
	}
	args := []string{
		"-M", "q35", "-accel", accel, "-cpu", cpu, "-smp", "2", "-m", fmt.Sprintf("%dM", cfg.Memory),
		"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-rtc", "base=utc",
		"-kernel", k.Image(), "-initrd", initrd,
		"-append", "console=ttyS0 quiet panic=-1 mitigations=off apparmor=0 audit=0",
		"-fsdev", "local,id=host,path=/,security_model=none,readonly=on,multidevs=remap",
		"-device", "virtio-9p-pci,fsdev=host,mount_tag=host",
		"-device", "virtio-serial-pci",
	}
	for i, s := range cfg.Shares {
		args = append(args,
			"-fsdev", fmt.Sprintf("local,id=share%d,path=%s,security_model=none,multidevs=remap", i, s),
			"-device", fmt.Sprintf("virtio-9p-pci,fsdev=share%d,mount_tag=share%d", i, i))
	}
	for i, name := range channels {
		args = append(args, "-chardev", fmt.Sprintf("file,id=%s,path=/proc/self/fd/%d", name, 3+i))
		if i == 0 {
			args = append(args, "-serial", "chardev:"+name)
			continue
		}
		args = append(args, "-device", fmt.Sprintf("virtserialport,chardev=%s,name=%s,nr=%d", name, name, i))
	}
	return args
}

// boot runs qemu until the guest ends or the context does.
func boot(ctx context.Context, cfg Config, k Kernel, initrd string) (int, error) {
	qemu, err := exec.LookPath(Emulator)
	if err != nil {
		return 0, fmt.Errorf("%w: install qemu-system-x86 (`make deps`)", err)
	}
	// The parent death signal comes when the thread that started qemu ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, qemu, qemuArgs(cfg, k, initrd, hasKVM())...)
	cmd.Stderr = &said
	cmd.Cancel = func() error { return cmd.Process.Kill() }
	// A group of its own: Ctrl-C at the terminal reaches this process, which then
	// ends qemu.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}

	var console tail
	var status bytes.Buffer
	wait, err := connect(cmd, io.MultiWriter(&console, cfg.Console), cfg.Stdout, cfg.Stderr, &status)
	if err != nil {
		return 0, err
	}
	runErr := cmd.Run()
	wait()
	if code, ok := parseStatus(status.String()); ok {
		return code, nil
	}
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	if runErr != nil {
		return 0, fmt.Errorf("%s: %w: %s", Emulator, runErr, strings.TrimSpace(said.String()))
	}
	return 0, &DeathError{Console: console.String()}
}

// connect gives cmd one pipe per channel and copies what comes through them to
// the sinks as it comes. The returned function, called after the command has
// ended, waits for the rest.
func connect(cmd *exec.Cmd, sinks ...io.Writer) (func(), error) {
	var copies sync.WaitGroup
	var writeEnds []*os.File
	wait := func() {
		for _, w := range writeEnds {
			w.Close()
		}
		copies.Wait()
	}
	for _, sink := range sinks {
		r, w, err := os.Pipe()
		if err != nil {
			wait()
			return nil, fmt.Errorf("make a pipe for the guest: %w", err)
		}
		writeEnds = append(writeEnds, w)
		copies.Go(func() {
			defer r.Close()
			if _, err := io.Copy(sink, r); err != nil {
				// A closed sink must not block the guest.
				_, _ = io.Copy(io.Discard, r)
			}
		})
	}
	cmd.ExtraFiles = writeEnds
	return wait, nil
}

// parseStatus reads what guest.sh writes at the end.
func parseStatus(s string) (int, bool) {
	word, ok := strings.CutPrefix(strings.TrimSpace(s), "exit ")
	if !ok {
		return 0, false
	}
	code, err := strconv.Atoi(word)
	return code, err == nil
}

// hasKVM says whether hardware virtualisation can be used by this user.
func hasKVM() bool {
	f, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0)
	if err != nil {
		return false
	}
	f.Close()
	return true
}

// tail keeps the last bytes written to it.
type tail struct{ b []byte }

const tailBytes = 4096

func (t *tail) Write(p []byte) (int, error) {
	t.b = append(t.b, p...)
	if over := len(t.b) - tailBytes; over > 0 {
		t.b = append(t.b[:0], t.b[over:]...)
	}
	return len(p), nil
}

func (t *tail) String() string { return strings.ReplaceAll(string(t.b), "\r", "") }

// ExitCode is the status that a command line program ends with after Run: the
// command's own, 124 at the deadline as timeout(1) does, 130 when interrupted,
// and 125 when the guest could not tell.
func ExitCode(code int, err error) int {
	switch {
	case err == nil:
		return code
	case errors.Is(err, ErrDeadline):
		return 124
	case errors.Is(err, context.Canceled):
		return 130
	default:
		return 125
	}
}

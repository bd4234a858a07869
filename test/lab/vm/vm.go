// SPDX-License-Identifier: Apache-2.0

// Package vm runs a command of this machine on another kernel. It boots a Debian
// kernel under qemu; the guest sees the host's root file system, read-only, below
// an overlay in memory, so that any program of the host runs there as root with
// the same paths, and nothing that it writes reaches the host except under the
// folders that are shared. Kernel features that the machine's own kernel lacks,
// above all IPVS, are tested in it.
package vm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Config says what to run, and with what machine.
type Config struct {
	Command  []string      // program and arguments; a name without slash is looked up on the guest's PATH
	Dir      string        // working directory; "" is the present one
	Env      []string      // K=V, added to the few variables that are always passed (see guestEnv)
	Shares   []string      // folders that the guest may write, seen at the same path; made if absent
	Deadline time.Duration // from boot to exit; 0 is none
	Memory   int           // MiB; 0 is 3072. Files that the guest writes outside the shares count
	Stdout   io.Writer     // nil discards
	Stderr   io.Writer     // nil discards
	Console  io.Writer     // the kernel's console, for debugging; nil discards
}

// ErrDeadline is returned when the command had not ended at the deadline.
var ErrDeadline = errors.New("deadline passed, guest killed")

// DeathError is returned when the guest ended without telling an exit status: a
// kernel panic, lack of memory, or a failure before the command was started.
type DeathError struct {
	Console string // last lines of the console
}

func (e *DeathError) Error() string {
	why := "guest died without an exit status"
	if _, panicked, ok := strings.Cut(e.Console, "Kernel panic - not syncing: "); ok {
		line, _, _ := strings.Cut(panicked, "\n")
		why += ": kernel panic: " + line
	}
	return why + "; its console ended with:\n" + e.Console
}

// Run boots the guest, runs the command in it and returns the command's exit
// status (128 + n when signal n ended it). The error is ErrDeadline, a
// *DeathError, the context's error, or tells what could not be set up.
func Run(ctx context.Context, cfg Config) (int, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return 0, err
	}
	kernel, err := FindKernel(ctx)
	if err != nil {
		return 0, err
	}
	initrd, err := os.CreateTemp("", "weir-vm-")
	if err != nil {
		return 0, fmt.Errorf("make the initramfs: %w", err)
	}
	defer os.Remove(initrd.Name())
	err = writeInitramfs(ctx, initrd, kernel, commandScript(cfg, kernel))
	if err = errors.Join(err, initrd.Close()); err != nil {
		return 0, fmt.Errorf("make the initramfs: %w", err)
	}
	if cfg.Deadline > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, cfg.Deadline, ErrDeadline)
		defer cancel()
	}
	return boot(ctx, cfg, kernel, initrd.Name())
}

// complete checks the configuration, makes its paths absolute and fills in defaults.
func (cfg Config) complete() (Config, error) {
	if len(cfg.Command) == 0 {
		return cfg, errors.New("no command to run in the guest")
	}
	dir, err := filepath.Abs(cfg.Dir)
	if err != nil {
		return cfg, fmt.Errorf("working directory: %w", err)
	}
	cfg.Dir = dir
	shares := make([]string, len(cfg.Shares))
	for i, s := range cfg.Shares {
		if shares[i], err = filepath.Abs(s); err != nil {
			return cfg, fmt.Errorf("share %s: %w", s, err)
		}
		if strings.Contains(shares[i], ",") {
			return cfg, fmt.Errorf("share %s: qemu takes no comma in a path", s)
		}
		if err := os.MkdirAll(shares[i], 0o755); err != nil {
			return cfg, fmt.Errorf("share %s: %w", s, err)
		}
	}
	cfg.Shares = shares
	if cfg.Memory == 0 {
		cfg.Memory = 3072
	}
	for _, w := range []*io.Writer{&cfg.Stdout, &cfg.Stderr, &cfg.Console} {
		if *w == nil {
			*w = io.Discard
		}
	}
	return cfg, nil
}

// commandScript is the part of the guest's script that differs between runs.
func commandScript(cfg Config, k Kernel) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "MODULES=%s\n", quote(k.Modules()))
	b.WriteString("shares() {\n\t:\n")
	for _, s := range cfg.Shares {
		fmt.Fprintf(&b, "\tshare %s\n", quote(s))
	}
	b.WriteString("}\nrun() {\n")
	fmt.Fprintf(&b, "\tcd %s || exit 125\n", quote(cfg.Dir))
	b.WriteString("\texec /usr/bin/env -i")
	for _, kv := range append(guestEnv(os.Environ()), cfg.Env...) {
		b.WriteString(" " + quote(kv))
	}
	for _, arg := range cfg.Command {
		b.WriteString(" " + quote(arg))
	}
	b.WriteString("\n}\n")
	return []byte(b.String())
}

// quote makes one word of the shell language out of any text.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// guestEnv picks from the host's environment what also makes sense in the guest:
// search path, home, terminal, locale, and all that steers Weir or Go.
func guestEnv(env []string) []string {
	var kept []string
	path := "PATH="
	for _, kv := range env {
		name, value, _ := strings.Cut(kv, "=")
		switch {
		case name == "PATH":
			path += value + ":"
		case strings.HasPrefix(name, "WEIR_"), strings.HasPrefix(name, "LC_"):
			kept = append(kept, kv)
		case name == "HOME", name == "TERM", name == "LANG", name == "USER",
			name == "GODEBUG", name == "GOTRACEBACK", name == "GORACE", name == "GOMAXPROCS", name == "GOCOVERDIR":
			kept = append(kept, kv)
		}
	}
	// The guest's command is root, whose tools live in the sbin folders.
	return append(kept, path+"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
}

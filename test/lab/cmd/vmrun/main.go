// SPDX-License-Identifier: Apache-2.0

// Command vmrun runs a command of this machine on a Debian kernel under qemu, as
// package vm describes, and ends with its exit status.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/edgeweir/weir/test/lab/vm"
)

func main() {
	cfg := vm.Config{Stdout: os.Stdout, Stderr: os.Stderr}
	console := parseFlags(&cfg, os.Args[1:])
	if console {
		cfg.Console = os.Stderr
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code, err := vm.Run(ctx, cfg)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "vmrun: %s: %v\n", cfg.Command[0], err)
	}
	os.Exit(vm.ExitCode(code, err))
}

// parseFlags fills cfg and says whether the console is wanted. It ends the
// process with status 2 when the command line is wrong.
func parseFlags(cfg *vm.Config, args []string) (console bool) {
	flags := pflag.NewFlagSet("vmrun", pflag.ContinueOnError)
	flags.SetInterspersed(false)
	flags.Usage = func() {
		fmt.Fprintf(os.Stderr, "Usage: vmrun [flags] -- COMMAND ARG...\n\n%s", flags.FlagUsages())
	}
	flags.DurationVar(&cfg.Deadline, "deadline", 10*time.Minute, "kill the guest after this time, exit status 124")
	flags.StringArrayVar(&cfg.Shares, "share", nil, "folder that the guest may write, made if absent; may be repeated")
	flags.StringVar(&cfg.Dir, "dir", "", "working directory of the command (default the present one)")
	flags.StringArrayVar(&cfg.Env, "env", nil, "K=V for the command's environment; may be repeated")
	flags.IntVar(&cfg.Memory, "memory", 3072, "MiB of the guest")
	flags.BoolVar(&console, "console", false, "show the guest kernel's console on standard error")
	err := flags.Parse(args)
	if errors.Is(err, pflag.ErrHelp) {
		os.Exit(0)
	}
	cfg.Command = flags.Args()
	if err == nil && len(cfg.Command) == 0 {
		err = errors.New("no command")
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "vmrun: %v\n", err)
		flags.Usage()
		os.Exit(2)
	}
	return console
}

// SPDX-License-Identifier: Apache-2.0

// Command models measures the optimizer's three models beside their peers: the seed's dense LP in PuLP with CBC,
// a balancer that works as descheduler's LowNodeUtilization does, and first-fit decreasing. Every measurement is a
// process of its own, so that peak memory is its own; contenders of one instance take turns. It writes
// models.json and models.md. Run it from the repository's root.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := newRoot().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "models:", err)
		os.Exit(1)
	}
}

func newRoot() *cobra.Command {
	var c config
	root := &cobra.Command{
		Use:           "models",
		Short:         "Measure the models beside their peers",
		Example:       "  models --out out/bench --only scaling",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return c.run(cmd.Context(), cmd.ErrOrStderr()) },
	}
	f := root.Flags()
	f.StringVar(&c.out, "out", "out/bench", "folder for models.json and models.md")
	f.StringVar(&c.peer, "pulp", "test/bench/dispatch_pulp.py", "the PuLP peer")
	f.StringVar(&c.python, "python", "/usr/bin/python3", "the Python that has PuLP: Debian's own for Debian's package")
	f.StringVar(&c.only, "only", "", "measure only this model: dispatch, migration or scaling")
	f.IntVar(&c.runs, "runs", 3, "runs of each contender; the median is reported")
	f.DurationVar(&c.limit, "limit", defaultLimit, "time limit of one process")
	root.AddCommand(newChild())
	return root
}

// SPDX-License-Identifier: Apache-2.0

// Command optimizer turns measured demand into decisions: `run` does it every period for a cluster, `solve`
// once for a snapshot file.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/edgeweir/weir/optimizer/model"
)

// Exit codes.
const (
	exitBadInput   = 1
	exitInfeasible = 3
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := newRoot().ExecuteContext(ctx)
	stop()
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, "optimizer:", err)
	if errors.Is(err, model.ErrInfeasible) {
		os.Exit(exitInfeasible)
	}
	os.Exit(exitBadInput)
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "optimizer",
		Short:         "Split, place and size the pods of a cluster from measured demand",
		Version:       version,
		Args:          cobra.NoArgs, // an unknown command is an error
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(newRun(), newSolve())
	return root
}

// SPDX-License-Identifier: Apache-2.0

// Command weirctl shows what Weir sees and decides.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// version is set by the linker.
var version = "unknown"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := command().ExecuteContext(ctx); err != nil {
		os.Stderr.WriteString("weirctl: " + err.Error() + "\n")
		stop()
		os.Exit(1)
	}
}

func command() *cobra.Command {
	root := &cobra.Command{
		Use:           "weirctl",
		Short:         "Show what Weir sees and decides",
		Version:       version,
		Args:          cobra.NoArgs, // an unknown command is an error
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(newStatus(), newNode())
	return root
}

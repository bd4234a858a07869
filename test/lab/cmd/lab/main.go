// SPDX-License-Identifier: Apache-2.0

// Command lab runs the parts of Weir's laboratory: the pods' server and the load
// generator, each of which the lab starts as a process of its own.
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
	root := &cobra.Command{
		Use:           "lab",
		Short:         "an edge cluster in the network namespaces of one kernel",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(demoCommand(), podCommand(), loadCommand(), downCommand())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := root.ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "lab:", err)
		os.Exit(1)
	}
}

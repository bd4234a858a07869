// SPDX-License-Identifier: Apache-2.0

// Command cluster builds the control plane of the tests, and runs one by hand.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/edgeweir/weir/test/cluster/controlplane"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := &cobra.Command{Use: "cluster", Short: "a real Kubernetes control plane for tests", SilenceUsage: true, SilenceErrors: true}
	root.AddCommand(buildCommand(), upCommand(), runCommand(), downCommand())
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

func buildCommand() *cobra.Command {
	var proxy bool
	cmd := &cobra.Command{Use: "build", Short: "build its binaries into the user's cache, where they are missing", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			names := controlplane.Names
			if proxy {
				names = append(names[:len(names):len(names)], controlplane.Proxy)
			}
			release, err := controlplane.Build(cmd.Context(), cmd.OutOrStdout(), names...)
			if err == nil {
				fmt.Fprintln(cmd.OutOrStdout(), "cluster-build: the control plane is in", release.Dir)
			}
			return err
		}}
	cmd.Flags().BoolVar(&proxy, "proxy", false, "build kube-proxy, too")
	return cmd
}

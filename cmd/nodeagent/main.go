// SPDX-License-Identifier: Apache-2.0

// Command nodeagent is Weir's agent of one node: it counts what arrives, and
// balances it by the optimizer's ratios.
package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/edgeweir/weir/nodeagent"
)

// version is set by the linker.
var version = "unknown"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := command().ExecuteContext(ctx); err != nil {
		os.Stderr.WriteString("nodeagent: " + err.Error() + "\n")
		stop()
		os.Exit(1)
	}
}

func command() *cobra.Command {
	config := nodeagent.Config{Version: version}
	c := &cobra.Command{
		Use:   "nodeagent",
		Short: "Count what arrives at this node and balance it by the optimizer's ratios",
		Long: "nodeagent runs on every node, as root. It counts each service's arrivals in eBPF, tells\n" +
			"them to the optimizer through Redis and writes the optimizer's ratios into IPVS. When it\n" +
			"ends it leaves the kernel's tables as they are, so traffic goes on.",
		Example: "  nodeagent --node edge-1 --cluster-file /etc/weir/cluster.yaml --redis 10.0.0.5:6379\n" +
			"  curl -s http://127.0.0.1:9420/status",
		Version:       version,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return nodeagent.Run(cmd.Context(), config, slog.New(slog.NewTextHandler(os.Stderr, nil)))
		},
	}
	config.AddFlags(c.Flags())
	return c
}

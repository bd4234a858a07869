// SPDX-License-Identifier: Apache-2.0

package main

import (
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/edgeweir/weir/optimizer"
)

// version is set by the linker.
var version = "unknown"

func newRun() *cobra.Command {
	config := optimizer.Config{Version: version}
	c := &cobra.Command{
		Use:   "run",
		Short: "Solve dispatch every period for a cluster and publish the splits",
		Example: "  optimizer run --cluster-file /etc/weir/cluster.yaml --redis 10.0.0.5:6379\n" +
			"  curl -s http://127.0.0.1:9421/status",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return optimizer.Run(cmd.Context(), config, slog.New(slog.NewTextHandler(os.Stderr, nil)))
		},
	}
	config.AddFlags(c.Flags())
	return c
}

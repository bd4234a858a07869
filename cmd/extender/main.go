// SPDX-License-Identifier: Apache-2.0

// Command extender answers kube-scheduler's filter and prioritize calls, so that
// pods with a directive land on the node that the optimizer chose.
package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/edgeweir/weir/extender"
)

// version is set by the linker.
var version = "unknown"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := command().ExecuteContext(ctx); err != nil {
		os.Stderr.WriteString("extender: " + err.Error() + "\n")
		stop()
		os.Exit(1)
	}
}

func command() *cobra.Command {
	config := extender.Config{Version: version}
	c := &cobra.Command{
		Use:   "extender",
		Short: "Place the pods that carry a directive of the optimizer",
		Long: "extender is called by kube-scheduler for each pod. A pod that carries no directive passes at\n" +
			"once; one that carries one is placed on its node, or tried again until the deadline. Several\n" +
			"may run side by side. KubeSchedulerConfiguration: see deploy/scheduler.",
		Example: "  extender --cluster prod --redis redis:6379 --tls-cert tls.crt --tls-key tls.key\n" +
			"  extender --cluster lab --kubeconfig lab.kubeconfig --listen 127.0.0.1:9443\n" +
			"  curl -s http://127.0.0.1:9422/status",
		Version:       version,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return extender.Run(cmd.Context(), config, slog.New(slog.NewTextHandler(os.Stderr, nil)))
		},
	}
	config.AddFlags(c.Flags())
	return c
}

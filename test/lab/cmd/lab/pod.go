// SPDX-License-Identifier: Apache-2.0

package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/edgeweir/weir/test/lab/pod"
)

func podCommand() *cobra.Command {
	var cfg pod.Config
	cmd := &cobra.Command{
		Use:   "pod",
		Short: "serve TCP and UDP with a bounded number of workers",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			server, err := pod.New(cfg)
			if err != nil {
				return err
			}
			return server.Run(cmd.Context())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&cfg.Name, "name", "", "name that every request is answered with")
	flags.Uint16Var(&cfg.Port, "port", 8080, "port of TCP and UDP")
	flags.Uint16Var(&cfg.Metrics, "metrics", 9102, "port of /metrics; 0 is none")
	flags.IntVar(&cfg.Workers, "workers", 4, "requests served at the same time")
	flags.DurationVar(&cfg.Service, "service", 100*time.Millisecond, "mean of a request's service time")
	flags.IntVar(&cfg.Shape, "shape", 1, "shape of its Erlang distribution; 1 is exponential")
	flags.Uint64Var(&cfg.Seed, "seed", 1, "seed of the service times")
	flags.IntVar(&cfg.MaxQueue, "max-queue", 0, "requests that wait at most; 0 is 65536")
	flags.DurationVar(&cfg.Drain, "drain", 0, "time for waiting requests after SIGTERM; 0 is 10s")
	if err := cmd.MarkFlagRequired("name"); err != nil {
		panic(err) // the flag is defined above
	}
	return cmd
}

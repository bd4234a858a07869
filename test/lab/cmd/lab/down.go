// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/cobra"

	"github.com/edgeweir/weir/test/lab/topology"
)

func downCommand() *cobra.Command {
	var prefix string
	cmd := &cobra.Command{
		Use:   "down",
		Short: "take away what an interrupted lab left behind, as root",
		Args:  cobra.NoArgs,
		RunE:  func(*cobra.Command, []string) error { return topology.Remove(prefix) },
	}
	cmd.Flags().StringVar(&prefix, "prefix", topology.DefaultPrefix, "of the lab's namespaces")
	return cmd
}

// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/cobra"

	"github.com/edgeweir/weir/optimizer/model"
)

func newSolveScaling() *cobra.Command {
	var file string
	c := &cobra.Command{
		Use:     "scaling -f SNAPSHOT",
		Short:   "Plan how many pods every workload should have, and on which nodes",
		Example: "  optimizer solve scaling -f snapshot.json | jq .scaling.replicas",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			s, err := readSnapshot(c.InOrStdin(), file)
			if err != nil {
				return err
			}
			d, err := model.Scale(c.Context(), s)
			if err != nil {
				return err
			}
			return (&model.Decisions{Scaling: d}).WriteJSON(c.OutOrStdout())
		},
	}
	c.Flags().StringVarP(&file, "file", "f", "", `snapshot file, "-" for standard input (required)`)
	if err := c.MarkFlagRequired("file"); err != nil {
		panic(err) // the flag is defined on the line above
	}
	return c
}

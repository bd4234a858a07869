// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/cobra"

	"github.com/edgeweir/weir/optimizer/model"
)

func newSolveMigration() *cobra.Command {
	var file string
	c := &cobra.Command{
		Use:     "migration -f SNAPSHOT",
		Short:   "Plan which pods move to which nodes, so that loads are even",
		Example: "  optimizer solve migration -f snapshot.json | jq .migration.moves",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			s, err := readSnapshot(c.InOrStdin(), file)
			if err != nil {
				return err
			}
			d, err := model.Migrate(c.Context(), s)
			if err != nil {
				return err
			}
			return (&model.Decisions{Migration: d}).WriteJSON(c.OutOrStdout())
		},
	}
	c.Flags().StringVarP(&file, "file", "f", "", `snapshot file, "-" for standard input (required)`)
	if err := c.MarkFlagRequired("file"); err != nil {
		panic(err) // the flag is defined on the line above
	}
	return c
}

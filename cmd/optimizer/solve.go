// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/edgeweir/weir/optimizer/model"
)

func newSolve() *cobra.Command {
	solve := &cobra.Command{
		Use:   "solve MODEL -f SNAPSHOT",
		Short: "Solve one model for a snapshot and print the decisions",
		Long: `Solve one model for a snapshot file and print the decisions as JSON on standard output.

Exit code 0: solved. 1: bad input, told in one line on standard error. 3: no feasible answer exists.`,
		Example: "  optimizer solve dispatch -f snapshot.json\n  optimizer solve migration -f snapshot.json\n  optimizer solve scaling -f - < snapshot.json",
		Args:    cobra.NoArgs, // an unknown model is an error
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	solve.AddCommand(newSolveDispatch(), newSolveMigration(), newSolveScaling())
	return solve
}

func newSolveDispatch() *cobra.Command {
	var file string
	c := &cobra.Command{
		Use:     "dispatch -f SNAPSHOT",
		Short:   "Split every node's arrivals over the pods",
		Example: "  optimizer solve dispatch -f snapshot.json | jq .dispatch.ratios",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			s, err := readSnapshot(c.InOrStdin(), file)
			if err != nil {
				return err
			}
			d, err := model.Dispatch(c.Context(), s)
			if err != nil {
				return err
			}
			return (&model.Decisions{Dispatch: d}).WriteJSON(c.OutOrStdout())
		},
	}
	c.Flags().StringVarP(&file, "file", "f", "", `snapshot file, "-" for standard input (required)`)
	if err := c.MarkFlagRequired("file"); err != nil {
		panic(err) // the flag is defined on the line above
	}
	return c
}

// readSnapshot reads the snapshot at path, or from in where path is "-".
func readSnapshot(in io.Reader, path string) (*model.Snapshot, error) {
	var data []byte
	var err error
	if path == "-" {
		data, err = io.ReadAll(in)
	} else {
		data, err = os.ReadFile(path)
	}
	if err != nil {
		return nil, fmt.Errorf("read snapshot: %w", err)
	}
	s, err := model.DecodeSnapshot(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

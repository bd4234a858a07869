// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/edgeweir/weir/test/lab/load"
)

// loadFiles are the paths that a load run reads and writes.
type loadFiles struct{ plan, log, result string }

func loadCommand() *cobra.Command {
	var files loadFiles
	cmd := &cobra.Command{
		Use:   "load",
		Short: "make the connections of a plan, progress as a line of JSON a second",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runLoad(cmd.Context(), files, cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&files.plan, "plan", "", "JSON file that says what to send")
	flags.StringVar(&files.log, "log", "", "file for one line of JSON per connection")
	flags.StringVar(&files.result, "result", "", "file for the summary as JSON")
	for _, name := range []string{"plan", "log", "result"} {
		if err := cmd.MarkFlagRequired(name); err != nil {
			panic(err) // the flag is defined above
		}
	}
	return cmd
}

// runLoad carries the plan out. Both files are written also when the run was
// interrupted.
func runLoad(ctx context.Context, files loadFiles, stdout io.Writer) (err error) {
	text, err := os.Open(files.plan)
	if err != nil {
		return err
	}
	plan, err := load.ReadPlan(text)
	text.Close()
	if err != nil {
		return fmt.Errorf("%s: %w", files.plan, err)
	}
	log, err := os.Create(files.log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	buffered := bufio.NewWriter(log)
	progress := json.NewEncoder(stdout)
	result, runErr := load.Run(ctx, plan, buffered, func(p load.Progress) { _ = progress.Encode(p) })
	summary, err := json.MarshalIndent(result, "", "  ")
	if err == nil {
		err = os.WriteFile(files.result, append(summary, '\n'), 0o644)
	}
	return errors.Join(runErr, err, buffered.Flush())
}

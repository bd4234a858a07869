// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
)

// output is how a command shows its result: tables for eyes, JSON for machines.
type output string

func (o *output) addFlag(c *cobra.Command) {
	c.Flags().StringVarP((*string)(o), "output", "o", "table", "table or json")
}

// write shows value as JSON, or by what tables does.
func (o output) write(w io.Writer, value any, tables func(io.Writer)) error {
	switch o {
	case "table":
		tables(w)
		return nil
	case "json":
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(value)
	}
	return fmt.Errorf("--output: %q: table or json", string(o))
}

// newTable returns a table without frames, as kubectl prints them.
func newTable(w io.Writer, header ...any) table.Writer {
	t := table.NewWriter()
	t.SetOutputMirror(w)
	style := table.StyleLight
	style.Options = table.OptionsNoBordersAndSeparators
	style.Box.PaddingLeft = ""
	style.Box.PaddingRight = "   "
	t.SetStyle(style)
	t.AppendHeader(header)
	return t
}

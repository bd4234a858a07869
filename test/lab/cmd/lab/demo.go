// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/edgeweir/weir/test/lab/demo"
)

func demoCommand() *cobra.Command {
	var out string
	var smoke, live, emulated bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "three nodes, live traffic: plain IPVS against Weir, as root",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			self, err := os.Executable()
			if err != nil {
				return err
			}
			if out, err = filepath.Abs(out); err != nil {
				return err
			}
			o := demo.Options{Scenario: demo.Default(), Out: out, Bin: filepath.Dir(self), Live: live || terminal(), Emulated: emulated, Stdout: os.Stdout}
			if smoke {
				o.Scenario = o.Scenario.Short()
			}
			if !emulated && !demo.HasIPVS() {
				again := []string{self, "demo", "--emulated", "--out", out, fmt.Sprintf("--smoke=%t", smoke), fmt.Sprintf("--live=%t", o.Live)}
				return demo.Emulate(cmd.Context(), o, again)
			}
			report, err := demo.Run(cmd.Context(), o)
			if err != nil {
				return err
			}
			if smoke {
				return report.Counts()
			}
			return report.Goals()
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&out, "out", "out/demo", "folder of report and logs")
	flags.BoolVar(&smoke, "smoke", false, "a short run that only checks that the loop closes and counts agree")
	flags.BoolVar(&live, "live", false, "draw the table over, as on a terminal")
	flags.BoolVar(&emulated, "emulated", false, "this is the emulated machine's side")
	if err := flags.MarkHidden("emulated"); err != nil {
		panic(err) // the flag is defined above
	}
	return cmd
}

// terminal says whether standard output is one.
func terminal() bool {
	info, err := os.Stdout.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// SPDX-License-Identifier: Apache-2.0

package model

import (
	"flag"
	"os"
	"testing"
)

// TestMain makes the random comparisons run over thousands of instances, unless told otherwise.
func TestMain(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "rapid.checks" })
	if !given && !testing.Short() {
		if err := flag.Set("rapid.checks", "1500"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

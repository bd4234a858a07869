// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
)

func TestSolveMigrationRefusesAShareAboveOne(t *testing.T) {
	_, err := solve(t, `{"version": 1, "migration": {"maxTimeShare": 1.5}}`, "solve", "migration", "-f", "-")
	const want = "-: snapshot: migration.maxTimeShare: 1.5: want 0 to 1"
	if err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

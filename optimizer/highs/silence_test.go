// SPDX-License-Identifier: Apache-2.0

package highs

import (
	"os"

	"golang.org/x/sys/unix"
)

// dupStdout runs f with the process's standard output, C's too, going to w.
func dupStdout(w *os.File, f func()) error {
	saved, err := unix.Dup(1)
	if err != nil {
		return err
	}
	defer unix.Close(saved)
	if err := unix.Dup2(int(w.Fd()), 1); err != nil {
		return err
	}
	f()
	return unix.Dup2(saved, 1)
}

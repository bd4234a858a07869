// SPDX-License-Identifier: Apache-2.0

package arrivals

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Marks are empty folders among the pins, for what the kernel does not tell: a bpf
// filesystem takes no files. clsact_IFINDEX: a filter there is ours; qdisc_IFINDEX:
// so is its discipline; netns_INODE: the namespace of all that is attached.

// mark makes the empty folder KIND_NUMBER.
func (s *store) mark(kind string, number int) error {
	err := os.Mkdir(markPath(s.path, kind, number), 0o700)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("mark %s_%d: %w", kind, number, err)
	}
	return nil
}

func unmark(folder, kind string, number int) error {
	return os.Remove(markPath(folder, kind, number))
}

func isMarked(folder, kind string, number int) bool {
	_, err := os.Stat(markPath(folder, kind, number))
	return err == nil
}

func marks(folder, kind string) []int {
	paths, _ := filepath.Glob(filepath.Join(folder, kind+"_*"))
	var numbers []int
	for _, path := range paths {
		numbers = append(numbers, numberOf(filepath.Base(path)))
	}
	return numbers
}

func markPath(folder, kind string, number int) string {
	return filepath.Join(folder, fmt.Sprintf("%s_%d", kind, number))
}

// numberOf reads the number in a pin's or mark's name, such as tcx_12.
func numberOf(name string) int {
	var number int
	_, digits, _ := strings.Cut(name, "_")
	if _, err := fmt.Sscanf(digits, "%d", &number); err != nil {
		return 0
	}
	return number
}

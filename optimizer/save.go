// SPDX-License-Identifier: Apache-2.0

package optimizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/edgeweir/weir/optimizer/model"
)

// keepSnapshots is how many snapshots a folder holds.
const keepSnapshots = 200

// saver keeps the last snapshots in a folder, so that any decision can be
// replayed with optimizer solve.
type saver struct {
	dir   string
	saved []string
}

func (s *saver) save(snapshot *model.Snapshot, now time.Time) error {
	if s.dir == "" {
		return nil
	}
	data, err := json.Marshal(snapshot)
	if err != nil {
		return fmt.Errorf("save snapshot: %w", err)
	}
	path := filepath.Join(s.dir, now.UTC().Format("20060102T150405.000")+".json")
	if err := os.WriteFile(path, data, 0o644); err != nil {
		return fmt.Errorf("save snapshot: %w", err)
	}
	s.saved = append(s.saved, path)
	if len(s.saved) > keepSnapshots {
		err = os.Remove(s.saved[0])
		s.saved = s.saved[1:]
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove an old snapshot: %w", err)
	}
	return nil
}

// oneLine joins an error's lines for a log.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

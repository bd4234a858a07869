// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"fmt"
	"time"
)

// Freeze stops the optimizer: while it is there, no pod is moved, no workload
// scaled and no split changed; the last split stays. weirctl writes it, the
// optimizer reads it each period.
type Freeze struct {
	Version int       `json:"version"`
	At      time.Time `json:"at"`
	// By says who froze, Why what for.
	By  string `json:"by,omitempty"`
	Why string `json:"why,omitempty"`
}

func (f *Freeze) validate() error {
	if err := checkVersion(f.Version); err != nil {
		return err
	}
	for field, text := range map[string]string{"by": f.By, "why": f.Why} {
		if len(text) > maxText {
			return fieldError(field, text, fmt.Sprintf("at most %d bytes", maxText))
		}
	}
	return nil
}

// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"sigs.k8s.io/yaml"
)

// writeStages copies kwok's stages into the state, with the delays of the options,
// and returns the copies.
func (c *Cluster) writeStages() ([]string, error) {
	files, err := c.release.Stages()
	if err != nil {
		return nil, err
	}
	delays := map[string]time.Duration{"pod-ready.yaml": c.options.PodStart, "pod-delete.yaml": c.options.PodStop}
	copies := make([]string, len(files))
	for i, file := range files {
		name := filepath.Base(file)
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read kwok's stage: %w", err)
		}
		if text, err = delayed(text, delays[name]); err != nil {
			return nil, fmt.Errorf("kwok's stage %s: %w", file, err)
		}
		copies[i] = filepath.Join(c.state, name)
		if err := os.WriteFile(copies[i], text, 0o644); err != nil {
			return nil, fmt.Errorf("write kwok's stage: %w", err)
		}
	}
	return copies, nil
}

// delayed sets spec.delay of a Stage; 0 leaves it as it is.
func delayed(stage []byte, delay time.Duration) ([]byte, error) {
	if delay == 0 {
		return stage, nil
	}
	fields := map[string]any{}
	if err := yaml.Unmarshal(stage, &fields); err != nil {
		return nil, err
	}
	spec, ok := fields["spec"].(map[string]any)
	if !ok {
		return nil, fmt.Errorf("no spec in %s", stage)
	}
	spec["delay"] = map[string]any{"durationMilliseconds": delay.Milliseconds()}
	return yaml.Marshal(fields)
}

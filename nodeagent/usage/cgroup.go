// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

const microsecond = 1e-6

// readCgroup reads the CPU time, memory and limits of one cgroup (kernel:
// Documentation/admin-guide/cgroup-v2.rst). Memory that the kernel can take back
// at once, inactive file pages, does not count. A controller that is off for the
// group leaves its resource out.
func readCgroup(root, group string) (measured, error) {
	m := newMeasured()
	dir := filepath.Join(root, filepath.Join("/", strings.TrimPrefix(group, root)))
	if _, err := os.Stat(dir); err != nil {
		return m, fmt.Errorf("cgroup: %w", err)
	}
	return m, errors.Join(addGroupCPU(&m, dir), addGroupMemory(&m, dir))
}

func addGroupCPU(m *measured, dir string) error {
	micros, err := readKey(filepath.Join(dir, "cpu.stat"), "usage_usec")
	if err != nil {
		return err
	}
	m.totals[CPU] = micros * microsecond
	// "QUOTA PERIOD" in µs, or "max PERIOD"; absent where the controller is off.
	text, err := os.ReadFile(filepath.Join(dir, "cpu.max"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cgroup: %w", err)
	}
	var quota string
	var period float64
	if _, err := fmt.Sscan(string(text), &quota, &period); err != nil || period <= 0 {
		return fmt.Errorf("cgroup: %s/cpu.max: %q is no quota and period", dir, bytes.TrimSpace(text))
	}
	if quota == "max" {
		return nil
	}
	micros, err = parseCount(filepath.Join(dir, "cpu.max"), quota)
	m.capacity[CPU] = micros / period
	return err
}

func addGroupMemory(m *measured, dir string) error {
	current, err := os.ReadFile(filepath.Join(dir, "memory.current"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cgroup: %w", err)
	}
	held, err := parseCount(filepath.Join(dir, "memory.current"), string(current))
	if err != nil {
		return err
	}
	inactive, err := readKey(filepath.Join(dir, "memory.stat"), "inactive_file")
	if err != nil {
		return err
	}
	m.stocks[Memory] = max(0, held-inactive)
	limit, err := os.ReadFile(filepath.Join(dir, "memory.max"))
	if err != nil {
		return fmt.Errorf("cgroup: %w", err)
	}
	if text := strings.TrimSpace(string(limit)); text != "max" {
		m.capacity[Memory], err = parseCount(filepath.Join(dir, "memory.max"), text)
	}
	return err
}

// readKey finds a line "KEY VALUE" in a flat keyed file.
func readKey(path, key string) (float64, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, fmt.Errorf("cgroup: %w", err)
	}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		if value, found := strings.CutPrefix(lines.Text(), key+" "); found {
			return parseCount(path, value)
		}
	}
	return 0, fmt.Errorf("cgroup: %s has no %s", path, key)
}

func parseCount(path, text string) (float64, error) {
	n, err := strconv.ParseUint(strings.TrimSpace(text), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("cgroup: %s: %w", path, err)
	}
	return float64(n), nil
}

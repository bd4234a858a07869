// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// CPU is time of all processors since boot, in the kernel's ticks.
type CPU struct{ Idle, Total uint64 }

// ReadCPU reads the time of this kernel's processors.
func ReadCPU() (CPU, error) {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return CPU{}, fmt.Errorf("read CPU time: %w", err)
	}
	return ParseCPU(string(stat))
}

// ParseCPU reads the first line of /proc/stat (proc_stat(5)): user, nice, system,
// idle, iowait, irq, softirq, steal; the guest times that follow are part of user
// and nice. Waiting for a disk is idling.
func ParseCPU(stat string) (CPU, error) {
	line, _, _ := strings.Cut(stat, "\n")
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return CPU{}, fmt.Errorf("read CPU time: %q is no cpu line", line)
	}
	var c CPU
	for i, f := range fields[1:9] {
		ticks, err := strconv.ParseUint(f, 10, 64)
		if err != nil {
			return CPU{}, fmt.Errorf("read CPU time: %w", err)
		}
		c.Total += ticks
		if i == 3 || i == 4 {
			c.Idle += ticks
		}
	}
	return c, nil
}

// IdleShare is the share of the time between two readings in which the processors
// idled, 0..1; 1 where no time passed.
func IdleShare(before, after CPU) float64 {
	if after.Total <= before.Total {
		return 1
	}
	return float64(after.Idle-before.Idle) / float64(after.Total-before.Total)
}

// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/procfs"
)

// The two directions of the uplinks, which busier joins into Network.
const (
	receive  = "network receive"
	transmit = "network transmit"
)

// megabit turns the Mbit/s of /sys/class/net/*/speed into bytes per second.
const megabit = 1e6 / 8

// readNode reads the node's counters. Each part that can't be read is left out
// and told in the error.
func readNode(o Options) (measured, error) {
	m := newMeasured()
	fs, err := procfs.NewFS(o.Proc)
	if err != nil {
		return m, fmt.Errorf("usage of the node: %w", err)
	}
	return m, errors.Join(addCPU(&m, fs), addMemory(&m, fs), addNetwork(&m, fs, o))
}

// addCPU counts the time that CPUs worked: neither idle, nor waiting for a disk,
// nor taken by the hypervisor for others. Guest time is part of user time.
func addCPU(m *measured, fs procfs.FS) error {
	stat, err := fs.Stat()
	if err != nil {
		return fmt.Errorf("cpu of the node: %w", err)
	}
	t := stat.CPUTotal
	m.totals[CPU] = t.User + t.Nice + t.System + t.IRQ + t.SoftIRQ
	m.capacity[CPU] = float64(len(stat.CPU))
	return nil
}

func addMemory(m *measured, fs procfs.FS) error {
	info, err := fs.Meminfo()
	if err != nil {
		return fmt.Errorf("memory of the node: %w", err)
	}
	total, available := info.MemTotalBytes, info.MemAvailableBytes
	if total == nil || available == nil {
		return errors.New("memory of the node: meminfo lacks MemTotal or MemAvailable")
	}
	m.stocks[Memory] = float64(*total - min(*total, *available))
	m.capacity[Memory] = float64(*total)
	return nil
}

// addNetwork counts the busier direction of the uplinks: a full-duplex link is
// full when one direction is. The capacity is known where every uplink tells its
// speed; virtual ones don't.
func addNetwork(m *measured, fs procfs.FS, o Options) error {
	lines, err := fs.NetDev()
	if err != nil {
		return fmt.Errorf("network of the node: %w", err)
	}
	devices := o.Devices
	if len(devices) == 0 {
		devices = withHardware(slices.Sorted(maps.Keys(lines)), o.Sys)
	}
	var received, sent, capacity float64
	known := len(devices) > 0
	for _, device := range devices {
		line, found := lines[device]
		if !found {
			return fmt.Errorf("network of the node: no device %q", device)
		}
		received += float64(line.RxBytes)
		sent += float64(line.TxBytes)
		speed, ok := speedOf(device, o.Sys)
		capacity += speed
		known = known && ok
	}
	if len(devices) > 0 {
		m.totals[receive], m.totals[transmit] = received, sent
	}
	if known {
		m.capacity[Network] = capacity
	}
	return nil
}

// busier replaces the rates of the two directions by the higher one.
func busier(used map[string]float64) {
	in, known := used[receive]
	out, too := used[transmit]
	delete(used, receive)
	delete(used, transmit)
	if known && too {
		used[Network] = max(in, out)
	}
}

// withHardware keeps the devices that a driver serves: bridges, veths, tunnels
// and loopback carry what the uplinks carry too, or what never leaves the node.
func withHardware(devices []string, sys string) []string {
	return slices.DeleteFunc(devices, func(name string) bool {
		_, err := os.Stat(filepath.Join(sys, "class/net", name, "device"))
		return err != nil
	})
}

// speedOf returns the device's speed in bytes per second, where it has one.
func speedOf(device, sys string) (float64, bool) {
	// One file: procfs' sysfs would read the thirty beside it, every period.
	text, err := os.ReadFile(filepath.Join(sys, "class/net", device, "speed"))
	if err != nil {
		return 0, false
	}
	speed, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || speed <= 0 {
		return 0, false
	}
	return float64(speed) * megabit, true
}

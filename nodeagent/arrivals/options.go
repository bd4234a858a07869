// SPDX-License-Identifier: Apache-2.0

package arrivals

import (
	"fmt"
	"log/slog"
	"path"
	"time"
)

// Options say where and how a Counter works. The zero value is what a node wants.
type Options struct {
	// Dir is a folder on a bpf filesystem, one per network namespace; a folder for
	// the layout of the maps is made in it. Default /sys/fs/bpf/weir.
	Dir string
	// Attach is auto (default), netfilter, tcx, clsact or none. auto takes the
	// first of them that the kernel supports; a named one is taken or is an error.
	Attach string
	// Interfaces are the devices for tcx and clsact, as names or path.Match
	// patterns. Empty means all but the loopback: a task that passes several of
	// them is counted once.
	Interfaces []string
	// UDPTimeout is the silence after which a UDP flow is a new task: IPVS's own
	// timeout. Zero keeps what is set, at first 300 s, IPVS's default.
	UDPTimeout time.Duration
	// MaxFlows, MaxServices and MaxArrivals bound the maps: tasks remembered
	// (default 131072), addresses of services (16384), rows of service and origin
	// (16384; each takes 8 bytes per possible CPU). Maps that are pinned already
	// keep their size.
	MaxFlows, MaxServices, MaxArrivals uint32
	// Logger gets a line for what is attached, taken over, kept or removed.
	// Default slog.Default().
	Logger *slog.Logger
}

const (
	defaultDir        = "/sys/fs/bpf/weir"
	defaultUDPTimeout = 300 * time.Second
)

func (o Options) withDefaults() (Options, error) {
	if o.Dir == "" {
		o.Dir = defaultDir
	}
	if o.Attach == "" {
		o.Attach = attachAuto
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.UDPTimeout < 0 {
		return o, fmt.Errorf("arrivals: UDP timeout %s is negative", o.UDPTimeout)
	}
	if _, known := ladders[o.Attach]; !known {
		return o, fmt.Errorf("arrivals: attach %q: want auto, netfilter, tcx, clsact or none", o.Attach)
	}
	for _, pattern := range o.Interfaces {
		if _, err := path.Match(pattern, ""); err != nil {
			return o, fmt.Errorf("arrivals: interface pattern %q: %w", pattern, err)
		}
	}
	return o, nil
}

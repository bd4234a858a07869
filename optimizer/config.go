// SPDX-License-Identifier: Apache-2.0

package optimizer

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/spf13/pflag"

	"github.com/edgeweir/weir/internal/store"
)

// Config is what the optimizer is told.
type Config struct {
	// ClusterFile is the static cluster file.
	ClusterFile string
	// Redis says how Redis is reached.
	Redis store.Options
	// Period is the length of a period T, the same as the agents'.
	Period time.Duration
	// StalePeriods is for how many periods published splits live.
	StalePeriods int
	// MaxUtilisation, in (0, 1], scales every pod's capacity: costs are
	// estimates.
	MaxUtilisation float64
	// Shortage is throughput or maxmin: what a shortage maximises.
	Shortage string
	// Locality keeps tasks near where they arrive while pods have headroom.
	Locality bool
	// Admin is host:port of metrics, health and status.
	Admin string
	// SnapshotDir is a folder for each cycle's snapshot; empty: none is kept.
	SnapshotDir string
	// Profile adds profiles of the process to the admin port.
	Profile bool
	// Version is the build's.
	Version string
}

// AddFlags binds c to flags, with their defaults.
func (c *Config) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&c.ClusterFile, "cluster-file", "", "static cluster file (required)")
	flags.DurationVar(&c.Period, "period", 5*time.Second, "length of a period, the same as the agents'")
	flags.IntVar(&c.StalePeriods, "stale-periods", 10, "periods for which published splits live")
	flags.Float64Var(&c.MaxUtilisation, "max-utilisation", 1, "part of each pod's capacity that may be planned with, over 0 to 1")
	flags.StringVar(&c.Shortage, "shortage", "throughput", "what a shortage maximises: throughput (all tasks served) or maxmin (least served share)")
	flags.BoolVar(&c.Locality, "locality", false, "keep tasks near where they arrive while pods have headroom")
	flags.StringVar(&c.Admin, "admin", "127.0.0.1:9421", "address of metrics, health and status")
	flags.BoolVar(&c.Profile, "profile", false, "serve profiles of this process at the admin port, under /debug/pprof")
	flags.StringVar(&c.SnapshotDir, "save-snapshots", "", "folder for the last snapshots, which optimizer solve can replay")
	c.Redis.AddFlags(flags)
}

// Validate checks what flags alone can't.
func (c *Config) Validate() error {
	switch {
	case c.ClusterFile == "":
		return errors.New("--cluster-file: none: path of the cluster file")
	case c.Period < 100*time.Millisecond || c.Period > time.Hour:
		return fmt.Errorf("--period: %s: 100ms to 1h", c.Period)
	case c.StalePeriods < 1:
		return fmt.Errorf("--stale-periods: %d: at least 1", c.StalePeriods)
	case math.IsNaN(c.MaxUtilisation) || c.MaxUtilisation <= 0 || c.MaxUtilisation > 1:
		return fmt.Errorf("--max-utilisation: %g: over 0, at most 1", c.MaxUtilisation)
	case c.Shortage != "throughput" && c.Shortage != "maxmin":
		return fmt.Errorf("--shortage: %q: throughput or maxmin", c.Shortage)
	}
	return nil
}

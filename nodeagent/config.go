// SPDX-License-Identifier: Apache-2.0

package nodeagent

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/edgeweir/weir/internal/store"
)

// Config is what one agent is told.
type Config struct {
	// Node is this node's name in the cluster.
	Node string
	// ClusterFile is the static cluster file.
	ClusterFile string
	// Redis says how Redis is reached.
	Redis store.Options
	// Period is the length of a period T, the same on every node.
	Period time.Duration
	// StalePeriods is for how many periods without a word of the optimizer
	// the last ratios hold before they drift to equal ones.
	StalePeriods int
	// DrainLimit is how long a TCP pod that has gone may finish what it has.
	DrainLimit time.Duration
	// Admin is host:port of metrics, health and status.
	Admin string
	// BPFDir is the folder on a bpf filesystem for pinned maps and links.
	BPFDir string
	// Attach is auto, netfilter, tcx, clsact or none.
	Attach string
	// Interfaces are the devices to count at where counting is per device;
	// empty is all.
	Interfaces []string
	// Uplinks are the devices whose traffic is the node's network use; empty
	// is those with hardware behind them.
	Uplinks []string
	// Profile adds profiles of the process to the admin port.
	Profile bool
	// Version is the build's.
	Version string
}

// AddFlags binds c to flags, with their defaults.
func (c *Config) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&c.Node, "node", "", "name of this node in the cluster file (required)")
	flags.StringVar(&c.ClusterFile, "cluster-file", "", "static cluster file (required)")
	flags.DurationVar(&c.Period, "period", 5*time.Second, "length of a period, the same on every node")
	flags.IntVar(&c.StalePeriods, "stale-periods", 10, "periods without the optimizer after which ratios drift to equal ones")
	flags.DurationVar(&c.DrainLimit, "drain-limit", 5*time.Minute, "time that connections to a pod that has gone may last")
	flags.StringVar(&c.Admin, "admin", "127.0.0.1:9420", "address of metrics, health and status")
	flags.BoolVar(&c.Profile, "profile", false, "serve profiles of this process at the admin port, under /debug/pprof")
	flags.StringVar(&c.BPFDir, "bpf-dir", "/sys/fs/bpf/weir", "folder on a bpf filesystem for pinned maps and links")
	flags.StringVar(&c.Attach, "attach", "auto", "how arrivals are counted: auto, netfilter, tcx, clsact or none")
	flags.StringSliceVar(&c.Interfaces, "interfaces", nil, "devices to count at with tcx and clsact, as patterns; all when empty")
	flags.StringSliceVar(&c.Uplinks, "uplinks", nil, "devices whose traffic is the node's network use; those with hardware when empty")
	c.Redis.AddFlags(flags)
}

// Validate checks what flags alone can't.
func (c *Config) Validate() error {
	switch {
	case c.Node == "":
		return errors.New("--node: none: this node's name in the cluster file")
	case c.ClusterFile == "":
		return errors.New("--cluster-file: none: path of the cluster file")
	case c.Period < 100*time.Millisecond || c.Period > time.Hour:
		return fmt.Errorf("--period: %s: 100ms to 1h", c.Period)
	case c.StalePeriods < 1:
		return fmt.Errorf("--stale-periods: %d: at least 1", c.StalePeriods)
	case c.DrainLimit < 0:
		return fmt.Errorf("--drain-limit: %s: at least 0", c.DrainLimit)
	}
	return nil
}

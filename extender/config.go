// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/edgeweir/weir/internal/store"
)

// Config is what one extender is told.
type Config struct {
	// Cluster is the cluster's name, a part of every key in Redis.
	Cluster string
	// Listen is host:port of the scheduler's calls.
	Listen string
	// Cert and Key are PEM files, read again when they change; empty: HTTP.
	Cert, Key string
	// ClientCA is a PEM file; who calls must then show a certificate of it.
	ClientCA string
	// Kubeconfig is a file; empty: the cluster that this pod runs in.
	Kubeconfig string
	// Redis says how Redis is reached.
	Redis store.Options
	// ClaimWait is how long a call waits for Redis to grant a slot; the
	// claim goes on behind it.
	ClaimWait time.Duration
	// Hold is how long a pod whose owner has a directive is held back while
	// Redis does not answer its claim.
	Hold time.Duration
	// Refresh is how often the directives are read without a notice.
	Refresh time.Duration
	// MaxBody bounds a call, in bytes.
	MaxBody int64
	// Nominate lets the extender set a waiting pod's nominatedNodeName.
	Nominate bool
	// Admin is host:port of metrics, health and status.
	Admin string
	// Profile adds profiles of the process to the admin port.
	Profile bool
	// Version is the build's.
	Version string
}

// AddFlags binds c to flags, with their defaults.
func (c *Config) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&c.Cluster, "cluster", "", "name of the cluster, the same as the optimizer's (required)")
	flags.StringVar(&c.Listen, "listen", ":9443", "address of the scheduler's calls")
	flags.StringVar(&c.Cert, "tls-cert", "", "PEM file of the server's certificate, read again when it changes; plain HTTP without")
	flags.StringVar(&c.Key, "tls-key", "", "PEM file of the certificate's key")
	flags.StringVar(&c.ClientCA, "tls-client-ca", "", "PEM file of the authority whose certificates callers must show")
	flags.StringVar(&c.Kubeconfig, "kubeconfig", "", "kubeconfig file; the service account of this pod without")
	flags.DurationVar(&c.ClaimWait, "claim-wait", 2*time.Millisecond, "time that a call waits for Redis to grant a slot")
	flags.DurationVar(&c.Hold, "hold", 10*time.Second, "time that a pod with a directive is held back while Redis does not answer")
	flags.DurationVar(&c.Refresh, "refresh", time.Second, "how often directives are read without a notice")
	flags.Int64Var(&c.MaxBody, "max-body", 32<<20, "largest call in bytes")
	flags.BoolVar(&c.Nominate, "nominate", true, "set nominatedNodeName of pods that wait for a node that was not offered")
	flags.StringVar(&c.Admin, "admin", "127.0.0.1:9422", "address of metrics, health and status")
	flags.BoolVar(&c.Profile, "profile", false, "serve profiles of this process at the admin port, under /debug/pprof")
	c.Redis.AddFlags(flags)
}

// Validate checks what flags alone can't.
func (c *Config) Validate() error {
	switch {
	case c.Cluster == "":
		return errors.New("--cluster: none: the cluster's name, the same as the optimizer's")
	case (c.Cert == "") != (c.Key == ""):
		return errors.New("--tls-cert and --tls-key need one another")
	case c.ClientCA != "" && c.Cert == "":
		return errors.New("--tls-client-ca needs --tls-cert and --tls-key")
	case c.ClaimWait <= 0 || c.ClaimWait > 100*time.Millisecond:
		return fmt.Errorf("--claim-wait: %s: over 0, at most 100ms", c.ClaimWait)
	case c.Hold < 0 || c.Hold > time.Hour:
		return fmt.Errorf("--hold: %s: 0 to 1h", c.Hold)
	case c.Refresh < 10*time.Millisecond || c.Refresh > time.Minute:
		return fmt.Errorf("--refresh: %s: 10ms to 1m", c.Refresh)
	case c.MaxBody < 1<<10 || c.MaxBody > 1<<30:
		return fmt.Errorf("--max-body: %d: 1024 to %d", c.MaxBody, 1<<30)
	}
	return nil
}

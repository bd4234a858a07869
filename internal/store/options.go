// SPDX-License-Identifier: Apache-2.0

package store

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/pflag"
)

// Options say how Redis is reached.
type Options struct {
	// Addresses are host:port of one server, of the sentinels (with Master)
	// or of some nodes of a Redis Cluster (more than one address).
	Addresses []string
	// Master is the name that the sentinels know; empty: no Sentinel.
	Master string
	// User is an ACL user; empty is Redis' default user.
	User string
	// PasswordFile holds the password; empty: none.
	PasswordFile string
	// CA, Cert and Key are PEM files; CA turns TLS on, Cert and Key present
	// a client certificate.
	CA, Cert, Key string
	// Timeout bounds each attempt of a call.
	Timeout time.Duration
}

// AddFlags binds the options to flags that every binary shares.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	flags.StringSliceVar(&o.Addresses, "redis", []string{"127.0.0.1:6379"}, "Redis as host:port; several for Sentinel or Cluster")
	flags.StringVar(&o.Master, "redis-master", "", "name of the master that the sentinels at --redis watch")
	flags.StringVar(&o.User, "redis-user", "", "ACL user")
	flags.StringVar(&o.PasswordFile, "redis-password-file", "", "file that holds the password")
	flags.StringVar(&o.CA, "redis-ca", "", "PEM file of the certificate authority; turns TLS on")
	flags.StringVar(&o.Cert, "redis-cert", "", "PEM file of the client certificate")
	flags.StringVar(&o.Key, "redis-key", "", "PEM file of the client certificate's key")
	flags.DurationVar(&o.Timeout, "redis-timeout", time.Second, "time that one attempt of a call may take")
}

func (o *Options) universal() (*redis.UniversalOptions, error) {
	if len(o.Addresses) == 0 {
		return nil, errors.New("--redis: none: at least one host:port")
	}
	for _, a := range o.Addresses {
		if !strings.Contains(a, ":") {
			return nil, fmt.Errorf("--redis: %q: host:port", a)
		}
	}
	if o.Timeout <= 0 {
		return nil, fmt.Errorf("--redis-timeout: %s: more than 0", o.Timeout)
	}
	u := &redis.UniversalOptions{
		Addrs: o.Addresses, MasterName: o.Master, Username: o.User,
		DialTimeout: o.Timeout, ReadTimeout: o.Timeout, WriteTimeout: o.Timeout,
		ContextTimeoutEnabled: true, MaxRetries: 1, DialerRetries: 1, PoolSize: 4,
	}
	if o.PasswordFile != "" {
		secret, err := os.ReadFile(o.PasswordFile)
		if err != nil {
			return nil, fmt.Errorf("--redis-password-file: %w", err)
		}
		u.Password = strings.TrimSpace(string(secret))
	}
	var err error
	u.TLSConfig, err = o.tls()
	return u, err
}

func (o *Options) tls() (*tls.Config, error) {
	if o.CA == "" {
		if o.Cert != "" || o.Key != "" {
			return nil, errors.New("--redis-cert and --redis-key need --redis-ca")
		}
		return nil, nil
	}
	pem, err := os.ReadFile(o.CA)
	if err != nil {
		return nil, fmt.Errorf("--redis-ca: %w", err)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: x509.NewCertPool()}
	if !config.RootCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("--redis-ca: %s: no PEM certificate in it", o.CA)
	}
	if o.Cert != "" || o.Key != "" {
		pair, err := tls.LoadX509KeyPair(o.Cert, o.Key)
		if err != nil {
			return nil, fmt.Errorf("--redis-cert, --redis-key: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"sync/atomic"
	"time"
)

// reloadEvery is how often the certificate files are read.
const reloadEvery = 5 * time.Second

// certs holds the server's certificate and the authority of its callers, as the
// files last had them.
type certs struct {
	cert, key, ca string
	current       atomic.Pointer[tls.Config]
	seen          string
}

// newCerts reads the files once; ca may be empty.
func newCerts(cert, key, ca string) (*certs, error) {
	c := &certs{cert: cert, key: key, ca: ca}
	if _, err := c.load(); err != nil {
		return nil, err
	}
	return c, nil
}

// config returns what a server needs to use the files as they are now.
func (c *certs) config() *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return c.current.Load(), nil },
		// The server wants a certificate here, though the one above is used.
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return &c.current.Load().Certificates[0], nil
		},
	}
}

// load reads the files and says whether they have changed. Where one can't be
// used, the last good ones stay.
func (c *certs) load() (bool, error) {
	cert, err := os.ReadFile(c.cert)
	if err != nil {
		return false, fmt.Errorf("--tls-cert: %w", err)
	}
	key, err := os.ReadFile(c.key)
	if err != nil {
		return false, fmt.Errorf("--tls-key: %w", err)
	}
	var ca []byte
	if c.ca != "" {
		if ca, err = os.ReadFile(c.ca); err != nil {
			return false, fmt.Errorf("--tls-client-ca: %w", err)
		}
	}
	all := string(cert) + string(key) + string(ca)
	if all == c.seen {
		return false, nil
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return false, fmt.Errorf("--tls-cert %s, --tls-key %s: %w", c.cert, c.key, err)
	}
	// HTTP/1.1 alone: the scheduler makes one call at a time, so that it has no
	// use for streams. Neither was measured to be faster (docs/decisions/0011).
	config := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, NextProtos: []string{"http/1.1"}}
	if c.ca != "" {
		config.ClientAuth, config.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
		if !config.ClientCAs.AppendCertsFromPEM(ca) {
			return false, fmt.Errorf("--tls-client-ca: %s: no PEM certificate in it", c.ca)
		}
	}
	c.seen = all
	c.current.Store(config)
	return true, nil
}

// keepCerts reads the files again and again until ctx ends.
func (e *Extender) keepCerts(ctx context.Context) error {
	tick := time.NewTicker(reloadEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		switch changed, err := e.certs.load(); {
		case err != nil:
			e.metrics.reloadErrors.Inc()
			e.logger.Warn("the changed certificate can't be used, the last one stays", "error", err)
		case changed:
			e.logger.Info("certificate read again", "file", e.config.Cert)
		}
	}
}

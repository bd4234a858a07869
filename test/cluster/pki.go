// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// pki are the files of one throw-away authority.
type pki struct {
	caFile, certFile, keyFile string
	// accountKey signs the tokens of service accounts.
	accountKey string
	ca         []byte
}

// newPKI writes an authority, a server certificate for the loopback addresses and
// the key of the service accounts into dir.
func newPKI(dir string) (pki, error) {
	p := pki{
		caFile: filepath.Join(dir, "ca.crt"), certFile: filepath.Join(dir, "server.crt"),
		keyFile: filepath.Join(dir, "server.key"), accountKey: filepath.Join(dir, "accounts.key"),
	}
	caKey, err := newKey(filepath.Join(dir, "ca.key"))
	if err != nil {
		return p, err
	}
	serverKey, err := newKey(p.keyFile)
	if err != nil {
		return p, err
	}
	if _, err := newKey(p.accountKey); err != nil {
		return p, err
	}
	ca := template("weir test authority", 1)
	ca.IsCA, ca.BasicConstraintsValid, ca.KeyUsage = true, true, x509.KeyUsageCertSign|x509.KeyUsageDigitalSignature
	if p.ca, err = sign(p.caFile, ca, ca, caKey, caKey); err != nil {
		return p, err
	}
	server := template("kube-apiserver", 2)
	server.DNSNames = []string{"localhost", "kubernetes.default.svc"}
	server.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback, net.IPv4(10, 96, 0, 1)}
	server.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	_, err = sign(p.certFile, server, ca, serverKey, caKey)
	return p, err
}

func template(name string, serial int64) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(30 * 24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature,
	}
}

func newKey(path string) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make key %s: %w", path, err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("make key %s: %w", path, err)
	}
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), 0o600); err != nil {
		return nil, fmt.Errorf("write key: %w", err)
	}
	return key, nil
}

// sign writes the certificate to path and returns it in PEM.
func sign(path string, cert, parent *x509.Certificate, key, parentKey *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.CreateCertificate(rand.Reader, cert, parent, &key.PublicKey, parentKey)
	if err != nil {
		return nil, fmt.Errorf("sign %s: %w", path, err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	if err := os.WriteFile(path, text, 0o644); err != nil {
		return nil, fmt.Errorf("write certificate: %w", err)
	}
	return text, nil
}

// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	"pgregory.net/rapid"

	"github.com/edgeweir/weir/internal/testenv"
	"github.com/edgeweir/weir/internal/wire"
)

// TestAnswersKeepTheirForm sends random lists of nodes in both forms, in the
// scheduler's own types, and looks for each node in exactly one place.
func TestAnswersKeepTheirForm(t *testing.T) {
	r := start(t, testenv.StartRedis(t))
	put(t, []wire.Directive{directive("web", 1, time.Hour)}, r)
	r.ask(t, podOf("web", "web-1"), "edge-1") // it holds the slot from now on
	rapid.Check(t, func(rt *rapid.T) {
		names := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"edge-0", "edge-1", "edge-2", "edge-3", "kühl\n\"<4>\\"}), 0, 5, rapid.ID).Draw(rt, "nodes")
		directed, whole := rapid.Bool().Draw(rt, "directed"), rapid.Bool().Draw(rt, "whole nodes")
		args := extenderv1.ExtenderArgs{Pod: podOf("db", "db-1"), NodeNames: &names}
		if directed {
			args.Pod = podOf("web", "web-1")
		}
		if whole {
			args.NodeNames, args.Nodes = nil, &corev1.NodeList{Items: []corev1.Node{}}
			for _, n := range names {
				args.Nodes.Items = append(args.Nodes.Items, corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n, Labels: map[string]string{"of": n}}})
			}
		}
		body, err := json.Marshal(args)
		if err != nil {
			rt.Fatal(err)
		}
		var result extenderv1.ExtenderFilterResult
		post(t, r.handler(), "/filter", body, &result)
		left := []string{}
		switch {
		case whole:
			for _, n := range result.Nodes.Items {
				left = append(left, n.Name)
				if n.Labels["of"] != n.Name {
					rt.Errorf("node %s came back as %+v", n.Name, n)
				}
			}
		case result.NodeNames != nil:
			left = *result.NodeNames
		}
		want := names
		if directed {
			want = slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n != "edge-1" })
		}
		if !slices.Equal(left, want) || len(left)+len(result.FailedAndUnresolvableNodes) != len(names) {
			rt.Errorf("of %v are left %v, refused %v; want %v", names, left, result.FailedAndUnresolvableNodes, want)
		}
		var scores extenderv1.HostPriorityList
		post(t, r.handler(), "/prioritize", body, &scores)
		for _, s := range scores {
			want := map[string]int64{"edge-0": 0, "edge-1": 10}
			if w, ok := want[s.Host]; ok && s.Score != w || !ok && s.Score != 5 {
				rt.Errorf("%s has score %d", s.Host, s.Score)
			}
		}
		if wantScores := len(names); !directed && len(scores) != 0 || directed && len(scores) != wantScores {
			rt.Errorf("%d scores for %v, directed %v", len(scores), names, directed)
		}
	})
}

func TestBadCallsAreRefused(t *testing.T) {
	r := start(t, testenv.StartRedis(t))
	put(t, []wire.Directive{directive("web", 1, time.Hour)}, r)
	pod, err := json.Marshal(podOf("web", "web-1"))
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, method, path, body string
		want                     int
	}{
		{"garbage", "POST", "/filter", "\x00", 400},
		{"no pod", "POST", "/filter", `{"NodeNames": ["a"]}`, 400},
		{"names of another form", "POST", "/filter", `{"Pod": ` + string(pod) + `, "NodeNames": 7}`, 400},
		{"nodes of another form", "POST", "/filter", `{"Pod": ` + string(pod) + `, "Nodes": {"items": 7}}`, 400},
		{"a node of another form", "POST", "/prioritize", `{"Pod": ` + string(pod) + `, "Nodes": {"items": [7]}}`, 400},
		{"too long", "POST", "/filter", `{"NodeNames": ["` + strings.Repeat("x", 1<<20) + `"]}`, 413},
		{"another verb", "POST", "/bind", "{}", 404},
		{"another method", "GET", "/filter", "", 405},
		{"neither form", "POST", "/filter", `{"Pod": ` + string(pod) + `, "Nodes": null}`, 200},
	}
	for _, tt := range tests {
		w := httptest.NewRecorder()
		r.handler().ServeHTTP(w, httptest.NewRequest(tt.method, tt.path, strings.NewReader(tt.body)))
		if w.Code != tt.want {
			t.Errorf("%s: %d %s, want %d", tt.name, w.Code, w.Body, tt.want)
		}
	}
}

// authority signs certificates.
type authority struct {
	t    testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority(t testing.TB) *authority {
	a := &authority{t: t}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign}
	a.key = newKey(t)
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.pem = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return a
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func (a *authority) sign(serial int64) (cert, key []byte) {
	own := newKey(a.t)
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, own.Public(), a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(own)
	if err != nil {
		a.t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})
}

func write(t testing.TB, files map[string][]byte) {
	t.Helper()
	for name, data := range files {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCertificatesAreReadAgain(t *testing.T) {
	dir, ca := t.TempDir(), newAuthority(t)
	certFile, keyFile, caFile := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"), filepath.Join(dir, "ca.crt")
	cert, key := ca.sign(2)
	write(t, map[string][]byte{certFile: cert, keyFile: key, caFile: ca.pem})
	c, err := newCerts(certFile, keyFile, caFile)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") }))
	server.TLS = c.config()
	server.StartTLS()
	defer server.Close()
	clientCert, clientKey := ca.sign(9)
	pair, err := tls.X509KeyPair(clientCert, clientKey)
	if err != nil {
		t.Fatal(err)
	}
	// serial calls the server and returns the serial number of its certificate.
	serial := func(certificates ...tls.Certificate) (int64, error) {
		pool := x509.NewCertPool()
		pool.AddCert(ca.cert)
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: certificates}, DisableKeepAlives: true}
		response, err := (&http.Client{Transport: transport}).Get(server.URL)
		if err != nil {
			return 0, err
		}
		defer response.Body.Close()
		if body, err := io.ReadAll(response.Body); err != nil || string(body) != "ok" {
			t.Errorf("answer %q, %v", body, err)
		}
		return response.TLS.PeerCertificates[0].SerialNumber.Int64(), nil
	}
	if got, err := serial(pair); err != nil || got != 2 {
		t.Errorf("certificate %d, %v", got, err)
	}
	if _, err := serial(); err == nil {
		t.Error("a caller without a certificate was answered")
	}
	cert, key = ca.sign(3)
	write(t, map[string][]byte{certFile: cert, keyFile: key})
	if changed, err := c.load(); !changed || err != nil {
		t.Errorf("the changed certificate: %v, %v", changed, err)
	}
	if got, err := serial(pair); err != nil || got != 3 {
		t.Errorf("certificate %d, %v", got, err)
	}
	for name, data := range map[string]string{certFile: "garbage", keyFile: "garbage", caFile: "garbage"} {
		good, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		write(t, map[string][]byte{name: []byte(data)})
		if _, err := c.load(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("garbage in %s gave %v", name, err)
		}
		write(t, map[string][]byte{name: good})
	}
	if changed, err := c.load(); changed || err != nil {
		t.Errorf("after the good files came back: %v, %v", changed, err)
	}
	if got, err := serial(pair); err != nil || got != 3 {
		t.Errorf("after garbage: certificate %d, %v", got, err)
	}
}

func TestConfigNamesItsFlag(t *testing.T) {
	good := Config{Cluster: "lab", ClaimWait: time.Millisecond, Refresh: time.Second, MaxBody: 1 << 20}
	if err := good.Validate(); err != nil {
		t.Errorf("the good one: %v", err)
	}
	tests := []struct {
		spoil func(*Config)
		want  string
	}{
		{func(c *Config) { c.Cluster = "" }, "--cluster"},
		{func(c *Config) { c.Cert = "x" }, "--tls-key"},
		{func(c *Config) { c.ClientCA = "x" }, "--tls-client-ca"},
		{func(c *Config) { c.ClaimWait = 0 }, "--claim-wait: 0s"},
		{func(c *Config) { c.ClaimWait = time.Second }, "--claim-wait: 1s"},
		{func(c *Config) { c.Hold = -1 }, "--hold"},
		{func(c *Config) { c.Refresh = 0 }, "--refresh"},
		{func(c *Config) { c.MaxBody = 0 }, "--max-body"},
	}
	for _, tt := range tests {
		c := good
		tt.spoil(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("error %v, want one line with %q", err, tt.want)
		}
	}
}

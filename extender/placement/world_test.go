// SPDX-License-Identifier: Apache-2.0

// Package placement tests and measures the extender with a real scheduler, on
// 500 nodes. It is apart from the extender's own tests, which need no cluster.
package placement

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/edgeweir/weir/extender"
	"github.com/edgeweir/weir/internal/store"
	"github.com/edgeweir/weir/internal/testenv"
	"github.com/edgeweir/weir/test/cluster"
)

// size is the number of nodes: the scheduler offers 230 of 500.
const size = 500

// world is a cluster with a Redis and an extender in it, but no scheduler yet.
type world struct {
	*cluster.Cluster
	client kubernetes.Interface
	store  *store.Store
	admin  string // host:port of the extender's
	url    string // of the extender
	ca     string // file of the certificate behind url
	rounds int    // of the benchmark
}

func newWorld(t testing.TB) *world {
	t.Helper()
	c := cluster.Start(t, cluster.Options{Nodes: size, NoScheduler: true})
	redis := store.Options{Addresses: []string{testenv.StartRedis(t)}, Timeout: time.Second}
	s, err := store.Open("lab", redis)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	listen := testenv.FreeAddress(t)
	w := &world{Cluster: c, client: c.Client, store: s, admin: testenv.FreeAddress(t), url: "https://" + listen}
	cert, key := certificate(t)
	w.ca = cert
	w.launch(t, extender.Config{Cluster: "lab", Listen: listen, Cert: cert, Key: key, Kubeconfig: w.account(t), Admin: w.admin,
		ClaimWait: 2 * time.Millisecond, Hold: 10 * time.Second, Refresh: time.Second, MaxBody: 32 << 20, Nominate: true, Redis: redis})
	return w
}

// launch runs the extender for the length of the test.
func (w *world) launch(t testing.TB, config extender.Config) {
	t.Helper()
	log, err := os.Create(filepath.Join(w.Dir, "extender.log"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- extender.Run(ctx, config, slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		log.Close()
	})
	w.await(t, "the extender is ready", func() bool {
		response, err := http.Get("http://" + w.admin + "/readyz")
		if err != nil {
			return false
		}
		response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
}

// account returns a kubeconfig of a service account that may do what the
// extender is said to need, and nothing else.
func (w *world) account(t testing.TB) string {
	t.Helper()
	ctx, name := t.Context(), "weir-extender"
	if err := w.Namespace(ctx, "weir-system"); err != nil {
		t.Fatal(err)
	}
	config, err := w.ServiceAccount(ctx, "weir-system", name)
	if err != nil {
		t.Fatal(err)
	}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "watch"}},
		{APIGroups: []string{""}, Resources: []string{"pods/status"}, Verbs: []string{"patch"}},
	}}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:  rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: name},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "weir-system", Name: name}}}
	if _, err := w.client.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.client.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	path, err := cluster.WriteKubeconfig(t.TempDir(), name, config)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// config returns one of deploy/scheduler with the places of the test put in.
func (w *world) config(t testing.TB, example string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "deploy", "scheduler", example))
	if err != nil {
		t.Fatal(err)
	}
	return strings.NewReplacer("https://weir-extender.weir-system.svc:9443", w.url,
		"/etc/kubernetes/weir/ca.crt", w.ca, "/etc/weir/ca.crt", w.ca).Replace(string(data))
}

// schedule starts a scheduler; stop ends it.
func (w *world) schedule(t testing.TB, name, config string) *cluster.Process {
	t.Helper()
	p, err := w.StartScheduler(t.Context(), name, config)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// status returns what the extender shows of itself.
func (w *world) status(t testing.TB) extender.Status {
	t.Helper()
	response, err := http.Get("http://" + w.admin + "/status")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var s extender.Status
	if err := json.NewDecoder(response.Body).Decode(&s); err != nil {
		t.Fatal(err)
	}
	return s
}

func (w *world) await(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(15 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if holds() {
			return
		}
	}
	t.Fatalf("not within 15 s: %s", what)
}

// certificate writes one for 127.0.0.1 that is its own authority.
func certificate(t testing.TB) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	for file, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: pkcs8}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

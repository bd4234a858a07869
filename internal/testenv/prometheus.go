// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// RunPrometheus starts a real prometheus at address with a configuration in YAML
// and returns what stops it before the test's end.
func RunPrometheus(t testing.TB, address, config string) (stop func()) {
	t.Helper()
	Require(t, Prometheus)
	dir := t.TempDir()
	file := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return run(t, address, "prometheus", "--config.file", file, "--storage.tsdb.path", filepath.Join(dir, "data"),
		"--web.listen-address", address, "--log.level", "error")
}

// RunNodeExporter starts a real node_exporter at address.
func RunNodeExporter(t testing.TB, address string) (stop func()) {
	t.Helper()
	Require(t, Prometheus)
	return run(t, address, "prometheus-node-exporter", "--web.listen-address", address, "--log.level", "error")
}

// run starts a server that ends with the test, and waits until it listens.
func run(t testing.TB, address, name string, args ...string) (stop func()) {
	t.Helper()
	cmd := exec.Command(name, args...)
	if err := cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			cmd.Process.Kill()
			cmd.Wait()
		}
	}
	t.Cleanup(stop)
	if err := reachable(address, 20*time.Second); err != nil {
		t.Fatal(err)
	}
	return stop
}

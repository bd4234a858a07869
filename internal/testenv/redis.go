// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"fmt"
	"net"
	"testing"
	"time"
)

// StartRedis starts a real redis-server on a free loopback port, with args added
// to its command line, and returns its address. It ends with the test.
func StartRedis(t testing.TB, args ...string) string {
	t.Helper()
	Require(t, Redis)
	address := FreeAddress(t)
	RunRedis(t, address, args...)
	return address
}

// RunRedis starts a redis-server at address and returns what stops it before the
// test's end.
func RunRedis(t testing.TB, address string, args ...string) (stop func()) {
	t.Helper()
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	args = append([]string{"--bind", "127.0.0.1", "--port", port, "--dir", t.TempDir(), "--save", "", "--maxmemory-policy", "noeviction"}, args...)
	return run(t, address, "redis-server", args...)
}

// FreeAddress returns a loopback address at which nothing listens.
func FreeAddress(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// reachable waits until a TCP connection to address succeeds.
func reachable(address string, limit time.Duration) error {
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			return conn.Close()
		}
	}
	return fmt.Errorf("nothing listens at %s after %s", address, limit)
}

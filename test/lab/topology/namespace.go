// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// namedDir is where named network namespaces are kept, by the custom of ip-netns(8).
const namedDir = "/run/netns"

// makeNamespace creates the named network namespace.
func makeNamespace(name string) error {
	return onThread(func() error {
		ns, err := netns.NewNamed(name)
		if err != nil {
			return fmt.Errorf("make network namespace %s: %w", name, err)
		}
		return ns.Close()
	})
}

// removeNamespace unmounts the named network namespace. It lives on while
// processes are in it.
func removeNamespace(name string) error {
	if err := gone(netns.DeleteNamed(name)); err != nil {
		return fmt.Errorf("remove network namespace %s: %w", name, err)
	}
	return nil
}

// Do runs f on a thread that is in the named network namespace. Sockets that f
// opens stay there; goroutines that f starts don't.
func Do(namespace string, f func() error) error {
	return onThread(func() error {
		if err := enter(namespace); err != nil {
			return err
		}
		return f()
	})
}

// Dialer returns a dial function, for net/http or go-redis, whose connections
// start in the named network namespace. It takes addresses, not host names.
func Dialer(namespace string) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (conn net.Conn, err error) {
		err = Do(namespace, func() (err error) {
			var d net.Dialer
			conn, err = d.DialContext(ctx, network, address)
			return err
		})
		return conn, err
	}
}

// enter moves the calling thread into the named network namespace.
func enter(namespace string) error {
	fd, err := unix.Open(filepath.Join(namedDir, namespace), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open network namespace %s: %w", namespace, err)
	}
	defer unix.Close(fd)
	if err := unix.Setns(fd, unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter network namespace %s: %w", namespace, err)
	}
	return nil
}

// onThread runs f on a thread of its own, which is thrown away afterwards with
// the namespaces that f entered. It is never the process's first thread, by
// whose namespaces /proc/PID/ns shows the process.
func onThread(f func() error) error {
	failed := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			// While this goroutine holds the first thread, the next gets another.
			failed <- onThread(f)
			runtime.UnlockOSThread()
			return
		}
		failed <- f()
	}()
	return <-failed
}

// setSysctls writes kernel parameters in the named network namespace. Names have
// the form of paths below /proc/sys.
func setSysctls(namespace string, values map[string]string) error {
	return Do(namespace, func() error {
		for name, value := range values {
			if err := os.WriteFile("/proc/sys/"+name, []byte(value), 0); err != nil {
				return fmt.Errorf("set %s in %s: %w", name, namespace, err)
			}
		}
		return nil
	})
}

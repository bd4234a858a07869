// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/edgeweir/weir/internal/testenv"
	"github.com/edgeweir/weir/test/cluster/controlplane"
)

// Options say what cluster a test wants. The zero value is a control plane
// without nodes.
type Options struct {
	// Nodes is the number of kwok nodes, named edge-1 and so on. Each has 4
	// cores, 8 GiB and room for 110 pods.
	Nodes int
	// Zones over which the nodes are spread in turn, zone-1 and so on; 0 is 3.
	Zones int
	// Node changes node i (from 1) before it is created; nil changes nothing.
	Node func(i int, n *corev1.Node)
	// Users are further names, without any right, for ConfigFor.
	Users []string
	// SchedulerConfig is the YAML of a KubeSchedulerConfiguration. Its
	// kubeconfig is set and its leader election turned off. Empty is the
	// scheduler's default.
	SchedulerConfig string
	// NoScheduler leaves the default scheduler out.
	NoScheduler bool
	// PodStart is how long a bound pod takes to run, PodStop how long a deleted
	// one takes to be gone: meanwhile its endpoint is terminating. 0 is at once.
	PodStart, PodStop time.Duration
	// APIServerArgs and ControllerArgs are added to the command lines.
	APIServerArgs, ControllerArgs []string
	// Name is the cluster's folder under out/cluster; Start makes one of the
	// package's and the test's names where it is empty.
	Name string
}

// Cluster is a running control plane.
type Cluster struct {
	// Config, Kubeconfig and Client are the admin's.
	Config     *rest.Config
	Kubeconfig string
	Client     kubernetes.Interface
	// URL is where the API server listens.
	URL string
	// Dir holds the logs of all components.
	Dir string
	// Audit is the API server's audit log: JSON lines at level Metadata.
	Audit string
	// Took is how long the cluster took until its last node was ready.
	Took time.Duration

	Etcd, APIServer, ControllerManager, Scheduler, Kwok *Process

	options    Options
	release    controlplane.Release
	state      string // folder with etcd's data and the keys; removed by Stop
	pki        pki
	tokens     map[string]string
	mu         sync.Mutex
	schedulers []*Process
	lock       *os.File // held while the cluster uses its folder
}

// Start runs a cluster for a test and stops it when the test ends. It skips the
// test where the control plane is not built (make cluster-build).
func Start(t testing.TB, o Options) *Cluster {
	t.Helper()
	testenv.Require(t, testenv.ControlPlane)
	if o.Name == "" {
		o.Name = folderName(t)
	}
	c, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("cluster of %d nodes ready in %.1f s; logs in %s", o.Nodes, c.Took.Seconds(), c.Dir)
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// Run starts a cluster for as long as its caller wants: Stop ends it. ctx bounds
// only the start. Whatever was started is stopped when it fails.
func Run(ctx context.Context, o Options) (*Cluster, error) {
	began := time.Now()
	release, err := controlplane.Current()
	if err != nil {
		return nil, err
	}
	if !release.Has(controlplane.Names...) {
		return nil, fmt.Errorf("start a cluster: the control plane is not built in %s: make cluster-build", release.Dir)
	}
	c := &Cluster{options: o, release: release}
	if err := c.prepare(); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	if err := c.start(ctx); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	c.Took = time.Since(began)
	return c, nil
}

// prepare makes the folders, keys, tokens, addresses and command lines.
func (c *Cluster) prepare() error {
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	c.Dir = filepath.Join(root, "out", "cluster", c.options.Name)
	if err := c.claim(); err != nil {
		return err
	}
	if c.pki, err = newPKI(c.state); err != nil {
		return err
	}
	if c.tokens, err = writeTokens(filepath.Join(c.state, "tokens.csv"), c.options.Users); err != nil {
		return err
	}
	return c.plan()
}

// claim takes the cluster's folder and empties it of what the last run left.
func (c *Cluster) claim() error {
	err := os.MkdirAll(filepath.Dir(c.Dir), 0o755)
	if err != nil {
		return fmt.Errorf("make the folder of logs: %w", err)
	}
	if c.lock, err = os.Create(c.Dir + ".lock"); err != nil {
		return fmt.Errorf("claim the folder of logs: %w", err)
	}
	if err := unix.Flock(int(c.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return fmt.Errorf("claim %s, which another cluster uses: %w", c.Dir, err)
	}
	if err := os.RemoveAll(c.Dir); err != nil {
		return fmt.Errorf("clear the logs of the last run: %w", err)
	}
	c.state = filepath.Join(c.Dir, "state")
	if err := os.MkdirAll(c.state, 0o700); err != nil {
		return fmt.Errorf("make the folder of state: %w", err)
	}
	return nil
}

// start brings the components up, each as soon as what it needs is there.
func (c *Cluster) start(ctx context.Context) error {
	if err := c.Etcd.Start(ctx); err != nil {
		return err
	}
	if err := c.APIServer.Start(ctx); err != nil {
		return err
	}
	jobs := []func(context.Context) error{c.ControllerManager.Start, c.Kwok.Start, func(ctx context.Context) error {
		return c.AddNodes(ctx, 1, c.options.Nodes)
	}}
	if !c.options.NoScheduler {
		jobs = append(jobs, c.Scheduler.Start)
	}
	if err := together(ctx, jobs...); err != nil {
		return err
	}
	return c.WaitNodes(ctx, c.options.Nodes)
}

// Stop ends every component and removes the state; the logs stay. A second call
// does nothing.
func (c *Cluster) Stop() error {
	c.mu.Lock()
	clients := append([]*Process{c.Kwok, c.ControllerManager}, c.schedulers...)
	c.mu.Unlock()
	var wait sync.WaitGroup
	errs := make([]error, len(clients))
	for i, p := range clients {
		if p != nil {
			wait.Go(func() { errs[i] = p.Stop() })
		}
	}
	wait.Wait()
	for _, p := range []*Process{c.APIServer, c.Etcd} {
		if p != nil {
			errs = append(errs, p.Stop())
		}
	}
	if c.state != "" {
		errs = append(errs, os.RemoveAll(c.state))
	}
	if c.lock != nil {
		c.lock.Close()
	}
	return errors.Join(errs...)
}

// Processes returns the components that were planned, schedulers last.
func (c *Cluster) Processes() []*Process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]*Process{c.Etcd, c.APIServer, c.ControllerManager, c.Kwok}, c.schedulers...)
}

// folderName is made of the package's path and the test's name: tests of several
// packages run at the same time.
func folderName(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	path, err := filepath.Rel(root, dir)
	if err != nil {
		t.Fatal(err)
	}
	return strings.NewReplacer("/", "-", " ", "-").Replace(path + "/" + t.Name())
}

// moduleRoot is the folder of go.mod, from the working folder upwards.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the module's root: %w", err)
	}
	for from := dir; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("find the module's root: no go.mod above %s", from)
		}
	}
}

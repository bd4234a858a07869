// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"crypto/sha256"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
)

// The versions that the tests run. Those of etcd and of all dependencies are in
// controlplane.mod; to lift one, change it there and run go mod tidy on a copy.
const (
	KubernetesVersion = "v1.37.2"
	KwokVersion       = "v0.8.0"
)

// The generated module in which all but kwok are built.
var (
	//go:embed controlplane.mod
	goMod []byte
	//go:embed controlplane.sum
	goSum []byte
)

// Names of the binaries.
const (
	Etcd              = "etcd"
	APIServer         = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
	Scheduler         = "kube-scheduler"
	Kwok              = "kwok"
	// Proxy is built only on demand.
	Proxy = "kube-proxy"
)

// Names are the binaries that Build makes unless told otherwise.
var Names = []string{Etcd, APIServer, ControllerManager, Scheduler, Kwok}

const (
	kwokModule = "sigs.k8s.io/kwok@" + KwokVersion
	// Kubernetes tells this version to clients, where a chart may ask for it.
	linkFlags = "-s -w -X k8s.io/component-base/version.gitVersion=" + KubernetesVersion
)

var packages = map[string]string{
	Etcd:              "go.etcd.io/etcd/server/v3",
	APIServer:         "k8s.io/kubernetes/cmd/kube-apiserver",
	ControllerManager: "k8s.io/kubernetes/cmd/kube-controller-manager",
	Scheduler:         "k8s.io/kubernetes/cmd/kube-scheduler",
	Kwok:              "sigs.k8s.io/kwok/cmd/kwok",
	Proxy:             "k8s.io/kubernetes/cmd/kube-proxy",
}

// Release is one set of binaries in the cache.
type Release struct {
	// Dir holds bin/, stages/ (kwok's) and src/ (the generated module).
	Dir string
}

// Current returns the release that this source tree asks for, built or not.
func Current() (Release, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return Release{}, fmt.Errorf("find the control plane's cache: %w", err)
	}
	h := sha256.New()
	fmt.Fprintln(h, runtime.Version(), runtime.GOARCH, kwokModule, linkFlags)
	h.Write(goMod)
	h.Write(goSum)
	key := fmt.Sprintf("%s-%x", KubernetesVersion, h.Sum(nil)[:6])
	return Release{Dir: filepath.Join(cache, "weir", "controlplane", key)}, nil
}

// Binary returns the path of a built or future binary.
func (r Release) Binary(name string) string { return filepath.Join(r.Dir, "bin", name) }

// Stages returns the files with kwok's stages: how its nodes become ready, keep
// their leases, and run and end their pods.
func (r Release) Stages() ([]string, error) {
	files, err := filepath.Glob(filepath.Join(r.Dir, "stages", "*.yaml"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("kwok's stages in %s: none (%v)", r.Dir, err)
	}
	return files, nil
}

// Has says whether the binaries and kwok's stages are there.
func (r Release) Has(names ...string) bool {
	for _, name := range names {
		if _, err := os.Stat(r.Binary(name)); err != nil {
			return false
		}
	}
	_, err := r.Stages()
	return err == nil
}

// Built says whether all that the tests start is there.
func Built() bool {
	r, err := Current()
	return err == nil && r.Has(Names...)
}

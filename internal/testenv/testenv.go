// SPDX-License-Identifier: Apache-2.0

// Package testenv says what the machine under a test can do. A test names the
// capabilities that it needs; where one is missing the test is skipped, or, when
// the environment variable WEIR_REQUIRE lists it, fails: a kernel that should
// have a feature must not hide its absence behind a skip.
package testenv

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"
	"github.com/mdlayher/genetlink"

	"github.com/edgeweir/weir/test/cluster/controlplane"
)

// Capability is a feature of the machine that a test can need. Its value is the
// word by which WEIR_REQUIRE names it.
type Capability string

// The capabilities that tests name.
const (
	Root     Capability = "root"     // effective uid 0: namespaces, links, bpf
	IPVS     Capability = "ipvs"     // generic netlink family IPVS, after modprobe
	BTF      Capability = "btf"      // /sys/kernel/btf/vmlinux
	Dummy    Capability = "dummy"    // dummy network devices
	CgroupV2 Capability = "cgroup2"  // unified hierarchy at /sys/fs/cgroup
	Redis    Capability = "redis"    // redis-server on PATH
	NFTables Capability = "nftables" // nft on PATH and in the kernel
	Qemu     Capability = "qemu"     // qemu-system-x86_64 on PATH
	Bpftool  Capability = "bpftool"  // bpftool on PATH
	PuLP     Capability = "pulp"     // PuLP for the system's own Python
	// Prometheus is prometheus and prometheus-node-exporter on PATH.
	Prometheus Capability = "prometheus"
	// ControlPlane is the built control plane of test/cluster.
	ControlPlane Capability = "controlplane"
)

// Require skips t, or fails it where WEIR_REQUIRE lists the capability, unless
// the machine has every one of caps.
func Require(t testing.TB, caps ...Capability) {
	t.Helper()
	required := strings.Split(os.Getenv("WEIR_REQUIRE"), ",")
	for _, c := range caps {
		probe, known := probes[c]
		if !known {
			t.Fatalf("testenv: unknown capability %q", c)
		}
		if probe() {
			continue
		}
		if slices.Contains(required, string(c)) || slices.Contains(required, "all") {
			t.Fatalf("capability %s is missing, and WEIR_REQUIRE says this machine has it", c)
		}
		t.Skipf("capability %s is missing", c)
	}
}

var probes = map[Capability]func() bool{
	Root:     func() bool { return os.Geteuid() == 0 },
	IPVS:     hasIPVS,
	BTF:      func() bool { _, err := btf.LoadKernelSpec(); return err == nil },
	Dummy:    func() bool { return hasModule("dummy") },
	CgroupV2: func() bool { _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); return err == nil },
	Redis:    func() bool { _, err := exec.LookPath("redis-server"); return err == nil },
	NFTables: func() bool { return exec.Command("nft", "list", "ruleset").Run() == nil },
	Qemu:     func() bool { _, err := exec.LookPath("qemu-system-x86_64"); return err == nil },
	Bpftool:  func() bool { _, err := exec.LookPath("bpftool"); return err == nil },
	PuLP:     func() bool { return exec.Command("/usr/bin/python3", "-c", "import pulp").Run() == nil },

	ControlPlane: controlplane.Built,
	Prometheus:   hasPrometheus,
}

func hasPrometheus() bool {
	for _, name := range []string{"prometheus", "prometheus-node-exporter"} {
		if _, err := exec.LookPath(name); err != nil {
			return false
		}
	}
	return true
}

func hasIPVS() bool {
	hasModule("ip_vs")
	conn, err := genetlink.Dial(nil)
	if err != nil {
		return false
	}
	defer conn.Close()
	_, err = conn.GetFamily("IPVS")
	return err == nil
}

// hasModule says whether the kernel module is loaded or can be loaded.
func hasModule(name string) bool {
	if _, err := os.Stat(filepath.Join("/sys/module", name)); err == nil {
		return true
	}
	return exec.Command("modprobe", name).Run() == nil
}

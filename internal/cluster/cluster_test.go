// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func example(t testing.TB) string { return contents(t, "testdata/cluster.yaml") }

func contents(t testing.TB, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestExampleFile(t *testing.T) {
	c, err := Load("testdata/cluster.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Nodes) != 3 || len(c.Services) != 2 || len(c.Pods) != 4 {
		t.Fatalf("%d nodes, %d services, %d pods", len(c.Nodes), len(c.Services), len(c.Pods))
	}
	web, dns := c.Services[0], c.Services[1]
	if web.Protocol != TCP || web.Scheduler != "auto" || web.Mode != Enforce {
		t.Errorf("defaults of %s: %s %s %s", web.Name, web.Protocol, web.Scheduler, web.Mode)
	}
	if dns.Protocol != UDP || dns.Scheduler != "wrr" || dns.Mode != Observe || !dns.Endpoints[1].Terminating {
		t.Errorf("%s: %+v", dns.Name, dns)
	}
	if got := dns.TaskCosts(5 * time.Second)["workers"]; got != 0.004 {
		t.Errorf("20 ms of a worker in a period of 5 s: %v workers", got)
	}
	pod := c.PodsByName()["shop/web-a"]
	if a, ok := pod.Address(netip.MustParseAddr("::1")); !ok || a != netip.MustParseAddr("fd00:10:244:1::2") {
		t.Errorf("IPv6 address %v", a)
	}
	if _, ok := c.PodsByName()["shop/web-b"].Address(netip.MustParseAddr("::1")); ok {
		t.Error("an IPv6 address was found for a pod that has none")
	}
}

func TestPlacement(t *testing.T) {
	c, err := Load("testdata/placed.yaml")
	if err != nil {
		t.Fatal(err)
	}
	web := c.Services[0]
	if *web.EnergyCost != 0 || *web.DeployCost != 1 || web.MinReplicas != 1 {
		t.Errorf("costs %g and %g, minimum %d", *web.EnergyCost, *web.DeployCost, web.MinReplicas)
	}
	if web.MigrationMode != Enforce || web.ScalingMode != Observe {
		t.Errorf("modes %s and %s", web.MigrationMode, web.ScalingMode)
	}
	if got := web.SLATasks(time.Minute); got != 2400 {
		t.Errorf("40 tasks a second are %v in a slice of a minute", got)
	}
	if c.Nodes[0].Unready || !c.Nodes[1].Unready || c.Nodes[0].Requested["pods"] != 12 {
		t.Errorf("nodes %+v", c.Nodes)
	}
}

// Each bad file gives one line that names file, line, field, value and what is
// allowed.
func TestBadFiles(t *testing.T) {
	checkBadFiles(t, example(t), []badFile{
		{"not YAML", "nodes:\n", "nodes: [\n", "c.yaml:"},
		{"unknown field", "zone: a", "zona: a", `c.yaml:7: unknown field "zona"`},
		{"unknown top field", "name: lab", "nome: lab", `c.yaml:3: unknown field "nome"`},
		{"wrong type", "port: 80\n", "port: http\n", "c.yaml:22:"},
		{"port too large", "port: 80\n", "port: 80000\n", "c.yaml:22:"},
		{"port zero", "port: 80\n", "port: 0\n", "c.yaml:22: services[0].port: 0: 1 to 65535"},
		{"no port", "    port: 80\n", "", "services[0].port: 0: 1 to 65535"},
		{"bad address", "[10.96.0.10]", "[10.96.0.300]", "c.yaml:21:"},
		{"loopback", "[10.96.0.10]", "[127.0.0.1]", "c.yaml:21: services[0].addresses[0]: 127.0.0.1: a unicast address"},
		{"version", "version: 1", "version: 9", "c.yaml:2: version: 9: this build reads 1"},
		{"no pods", "      - {pod: shop/web-a, port: 8080}\n      - {pod: shop/web-b, port: 8080}\n", "", "services[0].endpoints: none: at least one pod"},
		{"empty endpoints", "endpoints:\n      - {pod: shop/web-a, port: 8080}\n      - {pod: shop/web-b, port: 8080}\n", "endpoints: []\n", "c.yaml:23: services[0].endpoints: none: at least one pod"},
		{"unknown pod", "{pod: shop/web-b, port: 8080}", "{pod: shop/web-z, port: 8080}", `c.yaml:25: services[0].endpoints[1].pod: "shop/web-z": a pod of this file`},
		{"pod twice", "{pod: shop/web-b, port: 8080}", "{pod: shop/web-a, port: 8080}", "each pod once"},
		{"scheduler", "scheduler: wrr", "scheduler: fastest", `c.yaml:30: services[1].scheduler: "fastest": one of auto, wrr`},
		{"mode", "mode: observe", "mode: maybe", `c.yaml:31: services[1].mode: "maybe"`},
		{"protocol", "protocol: UDP", "protocol: QUIC", `c.yaml:29: services[1].protocol: "QUIC": TCP, UDP or SCTP`},
		{"unknown node", "node: edge-3", "node: edge-9", `pods[3].node: "edge-9": a node of this file`},
		{"pod name twice", "name: shop/dns-b", "name: shop/dns-a", "a name that no other pod has"},
		{"pod address twice", "[10.244.3.2]", "[10.244.2.3]", "an address that no other pod has; shop/dns-a has it"},
		{"negative capacity", "workers: 4", "workers: -4", "pods[1].capacity.workers: -4"},
		{"NaN", "workers: 0.02", "workers: .nan", "services[1].costs.workers: NaN"},
		{"family", "[10.96.0.10]", `["fd00:96::10"]`, "services[0].endpoints[1].pod"},
		{"host bits", "[10.244.3.0/24]", "[10.244.3.7/24]", "c.yaml:17: nodes[2].podCIDRs[0]: 10.244.3.7/24: a network without host bits"},
		{"two documents", "pods:\n", "---\npods:\n", "more than one YAML document"},
		{"metrics", "http://10.244.1.2:9102/metrics", "ftp://x", "pods[0].metrics"},
		{"cgroup", "/sys/fs/cgroup/lab/web-b", "lab/web-b", "pods[1].cgroup"},
	})
}

func TestBadPlacement(t *testing.T) {
	checkBadFiles(t, contents(t, "testdata/placed.yaml"), []badFile{
		{"allocatable", "cpu: 3.8", "cpu: -1", "nodes[0].allocatable.cpu: -1: a finite number of at least 0"},
		{"requested", "pods: 12", "pods: .inf", "nodes[0].requested.pods: +Inf"},
		{"bandwidth", "pullBandwidth: 2e7", "pullBandwidth: -1", "nodes[0].pullBandwidth: -1"},
		{"weight", "{cpu: 0.5, memory: 0.5}", "{cpu: -0.5, memory: 0.5}", "nodes[0].weights.cpu: -0.5"},
		{"unready", "unready: true", "unready: perhaps", "c.yaml:16:"},
		{"workload", "    workload: shop/Deployment/web\n    sla", "    workload: web\n    sla", `services[0].workload: "web": namespace/Kind/name`},
		{"sla", "sla: 40", "sla: -40", "services[0].sla: -40"},
		{"cost", "energyCost: 0", "energyCost: -1", "services[0].energyCost: -1"},
		{"minimum", "maxReplicas: 10", "minReplicas: -2", "services[0].minReplicas: -2: at least 1"},
		{"maximum", "maxReplicas: 10", "{minReplicas: 3, maxReplicas: 2}", "c.yaml:"},
		{"maximum under minimum", "maxReplicas: 10", "minReplicas: 3\n    maxReplicas: 2", "services[0].maxReplicas: 2: at least minReplicas, 3, or 0 for no maximum"},
		{"pod request", "podRequest: {cpu: 0.5", "podRequest: {cpu: -0.5", "services[0].podRequest.cpu: -0.5"},
		{"migration mode", "migrationMode: enforce", "migrationMode: on", `services[0].migrationMode: "on": off, observe or enforce`},
		{"pod workload", "    workload: shop/Deployment/web\n    request", "    workload: shop/web\n    request", `pods[0].workload: "shop/web"`},
		{"pod's request", "    request: {cpu: 0.5", "    request: {cpu: -0.5", "pods[0].request.cpu: -0.5"},
		{"image size", "imageBytes: 1.2e8", "imageBytes: -1", "pods[0].imageBytes: -1"},
		{"target", "targets: [edge-2]", "targets: [edge-9]", `pods[0].targets[0]: "edge-9": a node of this file`},
	})
}

type badFile struct{ name, old, new, want string }

// checkBadFiles reads text with each fault put in.
func checkBadFiles(t *testing.T, text string, faults []badFile) {
	t.Helper()
	for _, tt := range faults {
		t.Run(tt.name, func(t *testing.T) {
			bad := strings.Replace(text, tt.old, tt.new, 1)
			if bad == text {
				t.Fatalf("%q is not in the example", tt.old)
			}
			c, err := Parse("c.yaml", []byte(bad))
			if err == nil {
				t.Fatal("no error")
			}
			if c != nil {
				t.Error("a part of a bad file came through")
			}
			if !strings.HasPrefix(err.Error(), "c.yaml:") || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %q, want one line with %q", err, tt.want)
			}
		})
	}
}

func TestTwoServicesOnOneAddress(t *testing.T) {
	text := strings.Replace(example(t), "[10.96.0.11]\n    port: 53\n    protocol: UDP", "[10.96.0.10]\n    port: 80\n    protocol: TCP", 1)
	_, err := Parse("c.yaml", []byte(text))
	want := "c.yaml:27: services[1].addresses[0]: 10.96.0.10 port 80/TCP: an address and port that no other service has; shop/web:http has them"
	if err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	// One address with another port is another virtual server.
	text = strings.Replace(example(t), "[10.96.0.11]", "[10.96.0.10]", 1)
	if _, err := Parse("c.yaml", []byte(text)); err != nil {
		t.Errorf("two ports of one address: %v", err)
	}
}

func TestWatchKeepsWhatWasValid(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cluster.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	write(example(t))
	ctx, cancel := context.WithCancel(t.Context())
	changes, failures, done := make(chan *Cluster, 10), make(chan error, 10), make(chan error, 1)
	go func() {
		done <- Watch(ctx, path, func(c *Cluster) { changes <- c }, func(err error) { failures <- err })
	}()
	if c := <-changes; c.Name != "lab" {
		t.Errorf("first contents are of %q", c.Name)
	}
	write("version: [")
	if err := <-failures; !strings.HasPrefix(err.Error(), path+":1: ") {
		t.Errorf("error %q does not begin with file and line", err)
	}
	write(strings.Replace(example(t), "name: lab", "name: field", 1))
	if c := <-changes; c.Name != "field" {
		t.Errorf("second contents are of %q", c.Name)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(example(f)))
	f.Add([]byte(contents(f, "testdata/placed.yaml")))
	f.Add([]byte("version: 1\nname: a\nnodes: [{name: a}]\n"))
	f.Add([]byte("a: &a [*a]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse("fuzz.yaml", data)
		if (c == nil) == (err == nil) {
			t.Fatalf("cluster %v with error %v", c, err)
		}
		if err != nil && strings.ContainsAny(err.Error(), "\n") {
			t.Errorf("error of several lines: %q", err)
		}
	})
}

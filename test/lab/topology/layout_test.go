// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"net/netip"
	"testing"

	"pgregory.net/rapid"
)

// However many nodes and pods: no two things share a name or an address, and
// each pod's addresses are in its node's ranges.
func TestLayoutSharesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var cfg Config
		for n := range rapid.IntRange(1, maxNodes).Draw(t, "nodes") {
			cfg.Nodes = append(cfg.Nodes, fmt.Sprintf("edge-%d", n+1))
		}
		for p := range rapid.IntRange(0, 60).Draw(t, "pods") {
			node := rapid.SampledFrom(cfg.Nodes).Draw(t, "node")
			cfg.Pods = append(cfg.Pods, PodSpec{Name: fmt.Sprintf("default/web-%d", p), Node: node})
		}
		l, err := Lay(cfg)
		if err != nil {
			t.Fatal(err)
		}
		seen := map[any]bool{}
		unique := func(keys ...any) {
			for _, k := range keys {
				if seen[k] {
					t.Fatalf("%v is used twice", k)
				}
				seen[k] = true
			}
		}
		for _, name := range l.namespaces() {
			unique(name, l.CgroupOf(name))
		}
		unique(l.Control.IPv4, l.Control.IPv6, l.Client.IPv4, l.Client.IPv6)
		ranges := map[string][2]netip.Prefix{}
		for _, n := range l.Nodes {
			unique(n.IPv4, n.IPv6, n.gateway4, n.ClientSource4, n.ClientSource6, n.PodCIDR4, n.PodCIDR6)
			ranges[n.Name] = [2]netip.Prefix{n.PodCIDR4, n.PodCIDR6}
		}
		for _, p := range l.Pods {
			unique(p.IPv4, p.IPv6)
			if r := ranges[p.Node]; !r[0].Contains(p.IPv4) || !r[1].Contains(p.IPv6) {
				t.Fatalf("pod %+v is outside its node's ranges %v", p, r)
			}
		}
	})
}

func TestLayRefuses(t *testing.T) {
	tooMany := Config{Nodes: []string{"a"}}
	for i := range maxPodsOnNode + 1 {
		tooMany.Pods = append(tooMany.Pods, PodSpec{Name: fmt.Sprint(i), Node: "a"})
	}
	for name, cfg := range map[string]Config{
		"no nodes":                  {},
		"a node twice":              {Nodes: []string{"a", "a"}},
		"a reserved name":           {Nodes: []string{"client"}},
		"an unknown node":           {Nodes: []string{"a"}, Pods: []PodSpec{{Name: "p", Node: "b"}}},
		"a pod twice":               {Nodes: []string{"a"}, Pods: []PodSpec{{Name: "p", Node: "a"}, {Name: "p", Node: "a"}}},
		"a path as prefix":          {Prefix: "../", Nodes: []string{"a"}},
		"a path as node":            {Nodes: []string{".."}},
		"a path as pod":             {Nodes: []string{"a"}, Pods: []PodSpec{{Name: "a/../b", Node: "a"}}},
		"a full node":               tooMany,
		"more nodes than addresses": {Nodes: make([]string, maxNodes+1)},
	} {
		if l, err := Lay(cfg); err == nil {
			t.Errorf("%s: %+v, want an error", name, l)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/edgeweir/weir/internal/wire"
	"github.com/edgeweir/weir/test/lab/measure"
	"github.com/edgeweir/weir/test/lab/topology"
)

// sample is what the components and the pods showed at one moment.
type sample struct {
	at     time.Time
	agents map[string]*wire.AgentStatus // by node
	pods   map[string]measure.PodSample
	plan   *wire.Plan
}

// sample asks everyone. It needs all agents and pods to answer.
func (l *lab) sample(ctx context.Context) (*sample, error) {
	s := &sample{at: time.Now(), agents: map[string]*wire.AgentStatus{}}
	for _, n := range l.Nodes {
		status, err := l.status(ctx, n)
		if err != nil {
			return nil, err
		}
		s.agents[n.Name] = status
	}
	var err error
	if s.pods, err = l.samplePods(ctx); err != nil {
		return nil, err
	}
	s.plan, err = l.optimizerPlan(ctx)
	return s, err
}

func (l *lab) samplePods(ctx context.Context) (map[string]measure.PodSample, error) {
	samples := map[string]measure.PodSample{}
	for _, p := range l.Pods {
		url := fmt.Sprintf("http://%s/metrics", netip.AddrPortFrom(p.IPv4, metricsPort))
		err := l.fetch(ctx, url, func(body io.Reader) (err error) {
			samples[p.Name], err = measure.ParsePod(body, resource, time.Now())
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("pod %s: %w", p.Name, err)
		}
	}
	return samples, nil
}

// counts returns what agents have counted so far, by node and service.
func (s *sample) counts() map[measure.Flow]uint64 {
	counts := map[measure.Flow]uint64{}
	for node, a := range s.agents {
		for _, v := range a.Services {
			counts[measure.Flow{Service: v.Service, Node: node}] = v.Tasks
		}
	}
	return counts
}

// ipvsConnections returns what IPVS itself has counted on all nodes, from its
// page /proc/net/ip_vs_stats (hexadecimal): "Total Incoming …" and "Conns …" head
// the columns, connections stand first in the third line.
func (l *lab) ipvsConnections() (uint64, error) {
	var total uint64
	for _, n := range l.Nodes {
		err := topology.Do(n.Namespace, func() error {
			page, err := os.ReadFile("/proc/thread-self/net/ip_vs_stats")
			if err != nil {
				return err
			}
			count, err := parseStats(string(page))
			total += count
			return err
		})
		if err != nil {
			return 0, fmt.Errorf("node %s: %w", n.Name, err)
		}
	}
	return total, nil
}

func parseStats(page string) (uint64, error) {
	lines := strings.Split(page, "\n")
	if len(lines) < 3 || len(strings.Fields(lines[2])) == 0 {
		return 0, fmt.Errorf("ip_vs_stats: %q: three lines or more", page)
	}
	count, err := strconv.ParseUint(strings.Fields(lines[2])[0], 16, 64)
	if err != nil {
		return 0, fmt.Errorf("ip_vs_stats: %w", err)
	}
	return count, nil
}

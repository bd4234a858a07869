// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// Resources that this package measures by itself. All others are named by pods.
const (
	CPU     = "cpu"     // cores, the mean over the interval
	Memory  = "memory"  // bytes, at the moment of the sample
	Network = "network" // bytes per second of the busier direction, nodes only
)

// Pod says where the consumption of one pod is read.
type Pod struct {
	Name    string // unique within a sample
	Cgroup  string // folder below Options.Cgroup, absolute or relative to it; "" for none
	Metrics string // http or https address of the pod's Prometheus page; "" for none
}

// Reading holds quantities by resource: cpu in cores, memory in bytes, network
// in bytes per second, others in the pod's own unit (workers: how many are busy).
type Reading struct {
	Used     map[string]float64 // a resource that could not be measured is absent
	Capacity map[string]float64 // a resource without a limit is absent
}

// Sample is what one call of Meter.Sample measured.
type Sample struct {
	Node     Reading
	Pods     map[string]Reading // by name, pods of which anything is known
	Missing  map[string]string  // by name, why something that was asked for is absent
	Interval time.Duration      // since the previous call; 0 at the first
}

// Options configure a Meter; the zero value reads this machine.
type Options struct {
	Proc        string        // mount of procfs; "/proc" where empty
	Sys         string        // mount of sysfs; "/sys" where empty
	Cgroup      string        // mount of the unified hierarchy; "/sys/fs/cgroup" where empty
	Devices     []string      // network devices that are the node's uplinks; empty: those with hardware behind them
	Timeout     time.Duration // for one pod's page; 1 s where 0
	Concurrency int           // pods asked at once; 16 where 0
}

// Meter turns the counters of the kernel and of pods into mean consumption
// between two calls of Sample. It is safe for concurrent use.
type Meter struct {
	options Options
	client  *http.Client
	now     func() time.Time

	mu       sync.Mutex
	last     time.Time
	node     counters
	previous map[string]counters // by pod
}

// point is a counter, in resource-seconds or bytes, at the moment it was read.
type point struct {
	at    time.Time
	total float64
}

// counters holds points by resource.
type counters map[string]point

// New returns a Meter that has no previous sample yet.
func New(o Options) *Meter {
	o.Proc = withDefault(o.Proc, "/proc")
	o.Sys = withDefault(o.Sys, "/sys")
	o.Cgroup = withDefault(o.Cgroup, "/sys/fs/cgroup")
	o.Timeout = withDefault(o.Timeout, time.Second)
	o.Concurrency = withDefault(o.Concurrency, 16)
	return &Meter{
		options:  o,
		client:   newClient(o),
		now:      time.Now,
		previous: map[string]counters{},
	}
}

func withDefault[T comparable](value, fallback T) T {
	var zero T
	if value == zero {
		return fallback
	}
	return value
}

// Sample measures the node and the pods. Rates are means since the previous
// call, so the first call of all, and of a pod, tells stocks and capacities only.
// An error is about the node or about pods named twice; the sample then still
// holds what could be measured.
func (m *Meter) Sample(ctx context.Context, pods []Pod) (Sample, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := Sample{Pods: map[string]Reading{}, Missing: map[string]string{}}
	if now := m.now(); m.last.IsZero() {
		m.last = now
	} else {
		s.Interval, m.last = now.Sub(m.last), now
	}
	node := look{reading: newReading(), counters: counters{}}
	found, nodeErr := readNode(m.options)
	node.add(found, m.now())
	// The node's first sample has nothing to compare with, which is no fault.
	addRates(&node.reading, m.node, node.counters)
	busier(node.reading.Used)
	s.Node, m.node = node.reading, newer(m.node, node.counters)

	pods, twiceErr := unique(pods)
	previous := make(map[string]counters, len(pods))
	for i, r := range m.readPods(ctx, pods) {
		name := pods[i].Name
		reasons := append(r.reasons, addRates(&r.reading, m.previous[name], r.counters)...)
		if len(r.reading.Used)+len(r.reading.Capacity) > 0 {
			s.Pods[name] = r.reading
		}
		if len(reasons) > 0 {
			s.Missing[name] = strings.Join(reasons, "; ")
		}
		previous[name] = newer(m.previous[name], r.counters)
	}
	m.previous = previous
	return s, errors.Join(nodeErr, twiceErr)
}

// newer returns what the next sample is compared with: a counter that could not
// be read keeps its last point, so that its next mean spans the gap.
func newer(before, after counters) counters {
	merged := maps.Clone(after)
	for resource, p := range before {
		if _, read := after[resource]; !read {
			merged[resource] = p
		}
	}
	return merged
}

// addRates adds (after − before)/Δt of every counter to the reading, and returns
// why it could not for those that have no rate.
func addRates(r *Reading, before, after counters) (reasons []string) {
	for _, resource := range slices.Sorted(maps.Keys(after)) {
		p := after[resource]
		old, known := before[resource]
		switch {
		case !known:
			reasons = append(reasons, resource+": first sample")
		case p.total < old.total:
			reasons = append(reasons, resource+": counter was reset")
		case !p.at.After(old.at):
			reasons = append(reasons, resource+": no time has passed")
		default:
			r.Used[resource] = (p.total - old.total) / p.at.Sub(old.at).Seconds()
		}
	}
	return reasons
}

// unique drops pods whose name was seen before and tells of them in the error.
func unique(pods []Pod) ([]Pod, error) {
	var errs []error
	seen := make(map[string]bool, len(pods))
	kept := make([]Pod, 0, len(pods))
	for _, p := range pods {
		if seen[p.Name] {
			errs = append(errs, fmt.Errorf("usage of pod %q: named twice", p.Name))
			continue
		}
		seen[p.Name] = true
		kept = append(kept, p)
	}
	return kept, errors.Join(errs...)
}

// look is what one look at the node or at a pod brought.
type look struct {
	reading  Reading
	counters counters
	reasons  []string
}

// readPods looks at all pods, a bounded number at once; results are in the order
// of pods.
func (m *Meter) readPods(ctx context.Context, pods []Pod) []look {
	results := make([]look, len(pods))
	var group errgroup.Group
	group.SetLimit(m.options.Concurrency)
	for i, p := range pods {
		group.Go(func() error {
			results[i] = m.readPod(ctx, p)
			return nil
		})
	}
	_ = group.Wait() // the functions return none: a pod's trouble is its own
	return results
}

// readPod joins the pod's page and its cgroup. Where both tell a resource, the
// kernel is believed.
func (m *Meter) readPod(ctx context.Context, p Pod) look {
	r := look{reading: newReading(), counters: counters{}}
	if p.Metrics != "" {
		page, err := fetch(ctx, m.client, p.Metrics)
		if err != nil {
			r.reasons = append(r.reasons, err.Error())
		}
		r.add(page, m.now())
	}
	if p.Cgroup != "" {
		group, err := readCgroup(m.options.Cgroup, p.Cgroup)
		if err != nil {
			r.reasons = append(r.reasons, err.Error())
		}
		r.add(group, m.now())
	}
	return r
}

func (r *look) add(m measured, at time.Time) {
	for resource, total := range m.totals {
		r.counters[resource] = point{at: at, total: total}
	}
	maps.Copy(r.reading.Used, m.stocks)
	maps.Copy(r.reading.Capacity, m.capacity)
}

func newReading() Reading {
	return Reading{Used: map[string]float64{}, Capacity: map[string]float64{}}
}

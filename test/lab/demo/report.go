// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/edgeweir/weir/test/lab/measure"
)

// Report is report.json.
type Report struct {
	Kernel     string    `json:"kernel"`
	Attachment string    `json:"attachment"`
	Emulated   bool      `json:"emulated"` // in a machine of its own, since this one's kernel has no IPVS
	At         time.Time `json:"at"`
	// Connections, by the clients' log, of the phases with Weir; what eBPF and
	// IPVS counted of them.
	Connections     uint64 `json:"connections"`
	Counted         uint64 `json:"counted"`
	IPVSConnections uint64 `json:"ipvsConnections"`
	ReusedPorts     int    `json:"reusedPorts"`
	// SplitErrorMax is the largest |measured − wanted share| over node, service
	// and pod in the measured part of the wrr phase; SplitErrorAt says where.
	SplitErrorMax      float64 `json:"splitErrorMax"`
	SplitErrorAt       string  `json:"splitErrorAt"`
	ConnectionsPerNode int     `json:"connectionsPerNode"` // least, in that part
	// IdleShare is the least share of the lab's CPU that was idle in a phase
	// with Weir.
	IdleShare float64                `json:"idleShare"`
	Phases    map[string]PhaseReport `json:"phases"`
	Splits    []SplitReport          `json:"splits"` // of the wrr phase
}

// PhaseReport is one phase. Connections count over the whole phase, latencies
// and utilisations over the measured part.
type PhaseReport struct {
	Title              string             `json:"title"`
	Load               float64            `json:"load"` // of all pods' capacity
	Seconds            float64            `json:"seconds"`
	Offered            int                `json:"offered"`
	Completed          int                `json:"completed"`
	Failed             int                `json:"failed"`
	P50Millis          float64            `json:"p50Millis"`
	P99Millis          float64            `json:"p99Millis"`
	PodUtilisationMax  float64            `json:"podUtilisationMax"`
	PodUtilisationMin  float64            `json:"podUtilisationMin"`
	UtilisationSpread  float64            `json:"utilisationSpread"` // largest within a service
	PodUtilisation     map[string]float64 `json:"podUtilisation"`
	Schedulers         map[string]string  `json:"schedulers"` // by node and service, at the end
	IdleShare          float64            `json:"idleShare"`
	GeneratorLagMillis float64            `json:"generatorLagMillis"`

	latencies []float64
}

// SplitReport is how one node's connections to a service were shared.
type SplitReport struct {
	Service  string             `json:"service"`
	Node     string             `json:"node"`
	Tasks    int                `json:"tasks"`
	Wanted   map[string]float64 `json:"wanted"`
	Measured map[string]float64 `json:"measured"`
}

// newReport computes the report from what was seen.
func newReport(s Scenario, phases []*phase, emulated bool) (*Report, error) {
	r := &Report{Kernel: kernelRelease(), Emulated: emulated, At: time.Now().UTC().Truncate(time.Second), IdleShare: 1, Phases: map[string]PhaseReport{}}
	for _, p := range phases {
		report, err := newPhaseReport(s, p)
		if err != nil {
			return nil, err
		}
		r.Phases[p.variant.key] = report
		r.ReusedPorts += p.result.ReusedPorts
		if p.variant.weir() {
			r.Connections += uint64(p.result.Total.Connections)
			r.Counted += p.counted
			r.IPVSConnections += p.ipvs
			r.IdleShare = math.Min(r.IdleShare, p.idle)
		}
		for _, a := range p.samples[len(p.samples)-1].agents {
			r.Attachment = a.Attachment
		}
	}
	r.splits(phases[len(phases)-1])
	return r, nil
}

func newPhaseReport(s Scenario, p *phase) (PhaseReport, error) {
	inside := measure.Between(p.records, p.from, p.to)
	first, last := within(p.samples, p.from, p.to)
	if len(inside) == 0 || first == nil || last == first {
		return PhaseReport{}, fmt.Errorf("phase %s: nothing was measured", p.variant.key)
	}
	latencies := measure.Latencies(inside)
	r := PhaseReport{
		Title: p.variant.title, Load: s.Load, Seconds: s.steady(p.variant).Seconds(),
		Offered: p.result.Total.Offered, Completed: p.result.Total.Completed, Failed: p.result.Total.Failed,
		P50Millis: measure.Percentile(latencies, 50), P99Millis: measure.Percentile(latencies, 99),
		PodUtilisation: map[string]float64{}, PodUtilisationMin: math.Inf(1), Schedulers: map[string]string{},
		IdleShare: p.idle, GeneratorLagMillis: p.result.LagMillisMax, latencies: latencies,
	}
	for _, l := range s.Services {
		low, high := math.Inf(1), 0.0
		for _, pod := range l.Pods {
			u := measure.Utilisation(first.pods[pod.Name], last.pods[pod.Name])
			r.PodUtilisation[pod.Name] = u
			low, high = math.Min(low, u), math.Max(high, u)
		}
		r.PodUtilisationMin, r.PodUtilisationMax = math.Min(r.PodUtilisationMin, low), math.Max(r.PodUtilisationMax, high)
		r.UtilisationSpread = math.Max(r.UtilisationSpread, high-low)
	}
	for node, a := range last.agents {
		for _, v := range a.Services {
			r.Schedulers[node+" "+v.Service] = v.Scheduler
		}
	}
	return r, nil
}

// within returns the first and the last sample between two moments.
func within(samples []*sample, from, to time.Time) (first, last *sample) {
	for _, s := range samples {
		if s.at.Before(from) || s.at.After(to) {
			continue
		}
		if first == nil {
			first = s
		}
		last = s
	}
	return first, last
}

// splits compares measured with wanted shares in the measured part of p.
func (r *Report) splits(p *phase) {
	inside := measure.Between(p.records, p.from, p.to)
	counts := measure.Count(inside)
	measured, wanted := measure.SharesOf(counts), wantedShares(p)
	worst := measure.MaxDeviation(measured, wanted)
	r.SplitErrorMax = worst.Size()
	r.SplitErrorAt = fmt.Sprintf("%s at %s, pod %s", worst.Flow.Service, worst.Flow.Node, worst.Pod)
	perNode := map[string]int{}
	for flow, pods := range counts {
		tasks := 0
		for _, n := range pods {
			tasks += n
		}
		perNode[flow.Node] += tasks
		r.Splits = append(r.Splits, SplitReport{
			Service: flow.Service, Node: flow.Node, Tasks: tasks, Wanted: wanted[flow], Measured: measured[flow],
		})
	}
	slices.SortFunc(r.Splits, func(a, b SplitReport) int {
		return cmp.Or(cmp.Compare(a.Service, b.Service), cmp.Compare(a.Node, b.Node))
	})
	r.ConnectionsPerNode = math.MaxInt
	for _, n := range perNode {
		r.ConnectionsPerNode = min(r.ConnectionsPerNode, n)
	}
}

// wantedShares returns the ratios that agents enforced in the measured part,
// each weighted by the connections that began while it was in force.
func wantedShares(p *phase) measure.Shares {
	sums := map[measure.Flow]map[string]float64{}
	for _, record := range measure.Between(p.records, p.from, p.to) {
		flow := measure.Flow{Service: record.Service, Node: record.Node}
		if sums[flow] == nil {
			sums[flow] = map[string]float64{}
		}
		for pod, ratio := range ratiosAt(p.samples, flow, record.Start) {
			sums[flow][pod] += ratio
		}
	}
	wanted := measure.Shares{}
	for flow, pods := range sums {
		total := 0.0
		for _, v := range pods {
			total += v
		}
		wanted[flow] = map[string]float64{}
		for pod, v := range pods {
			wanted[flow][pod] = v / total
		}
	}
	return wanted
}

// ratiosAt returns what the flow's agent last said before t that it enforces.
func ratiosAt(samples []*sample, flow measure.Flow, t time.Time) map[string]float64 {
	ratios := map[string]float64{}
	for _, s := range samples {
		if s.at.After(t) && len(ratios) > 0 {
			break
		}
		for _, v := range s.agents[flow.Node].Services {
			if v.Service == flow.Service {
				for pod, state := range v.Pods {
					ratios[pod] = state.Ratio
				}
			}
		}
	}
	return ratios
}

func kernelRelease() string {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return "unknown"
	}
	return unix.ByteSliceToString(name.Release[:])
}

// write puts the report into a folder, as JSON and as a page.
func (r *Report) write(dir string) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "report.json"), append(data, '\n'), 0o644); err != nil {
		return err
	}
	page, err := r.page()
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "report.html"), page, 0o644)
}

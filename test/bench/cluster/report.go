// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/edgeweir/weir/test/cluster"
)

// report is what cluster.json holds.
type report struct {
	Nodes         int     `json:"nodes"`
	Pods          int     `json:"pods"`
	Services      int     `json:"services"`
	PeriodSeconds float64 `json:"periodSeconds"`
	// StartSeconds is until the nodes were ready, FillSeconds until all pods
	// were ready endpoints.
	StartSeconds float64 `json:"startSeconds"`
	FillSeconds  float64 `json:"fillSeconds"`
	Quiet        window  `json:"quiet"`
	Busy         window  `json:"busy"`
	// Peak resident memory by process, in bytes.
	PeakMemory map[string]int64 `json:"peakMemoryBytes"`
	// RedisMemory is what Redis holds at the end, in bytes.
	RedisMemory int64 `json:"redisMemoryBytes"`
	// MostWatches is the most that one agent held at the end; the
	// optimizer's are beside it.
	AgentWatches     float64        `json:"watchesPerAgent"`
	OptimizerWatches map[string]int `json:"optimizerWatches"`
	// Met says which limits hold.
	Met map[string]bool `json:"met"`
}

// window is what was counted in some periods.
type window struct {
	Periods int `json:"periods"`
	Changes int `json:"changes"`
	// OptimizerCalls and AgentCalls are API requests that began in the
	// window, by "verb resource", in all; leases apart.
	OptimizerCalls map[string]int `json:"optimizerCalls"`
	AgentCalls     map[string]int `json:"agentCalls"`
	LeaseCalls     int            `json:"leaseCalls"`
	// RedisInPerPeriod and RedisOutPerPeriod are bytes to and from Redis.
	RedisInPerPeriod  float64 `json:"redisInBytesPerPeriod"`
	RedisOutPerPeriod float64 `json:"redisOutBytesPerPeriod"`
	// OptimizerCores is the optimizer's mean use of processors.
	OptimizerCores float64 `json:"optimizerCores"`
	// Seconds summarises each of the optimizer's histograms of times.
	Seconds map[string]summary `json:"seconds"`
}

// summary of a histogram: MostBelow is the bound of the highest bucket in use.
type summary struct {
	Count     uint64  `json:"count"`
	Mean      float64 `json:"mean"`
	MostBelow float64 `json:"mostBelow"`
}

// compare takes the differences of counters.
func (w *window) compare(before, after reading) {
	n := float64(w.Periods)
	w.RedisInPerPeriod = difference(before.redis, after.redis, "total_net_input_bytes") / n
	w.RedisOutPerPeriod = difference(before.redis, after.redis, "total_net_output_bytes") / n
	w.Seconds = map[string]summary{}
	for name, h := range after.histograms {
		if strings.HasPrefix(name, "weir_") && strings.HasSuffix(name, "_seconds") {
			if s := h.since(before.histograms[name]); s.Count > 0 {
				w.Seconds[name] = s
			}
		}
	}
	w.OptimizerCores = (after.cpu - before.cpu).Seconds()
}

// since summarises what was observed after the earlier reading.
func (h histogram) since(before histogram) summary {
	s := summary{Count: h.count - before.count}
	if s.Count == 0 {
		return s
	}
	s.Mean = (h.sum - before.sum) / float64(s.Count)
	s.MostBelow = math.MaxFloat64 // JSON has no infinity
	for bound, n := range h.buckets {
		if n-before.buckets[bound] == s.Count {
			s.MostBelow = min(s.MostBelow, bound)
		}
	}
	return s
}

func difference(before, after map[string]string, name string) float64 {
	a, _ := strconv.ParseFloat(before[name], 64)
	b, _ := strconv.ParseFloat(after[name], 64)
	return b - a
}

// count takes the window's requests from the audit log.
func (w *window) count(all cluster.Requests, from, to time.Time) {
	w.OptimizerCores /= to.Sub(from).Seconds()
	in := all.Between(from, to)
	notLease := func(q cluster.Request) bool { return q.Resource != "leases" }
	mine := in.Of(user(optimizerAccount))
	w.OptimizerCalls = mine.Where(notLease).Count(cluster.ByCall)
	w.LeaseCalls = len(mine.To("leases"))
	w.AgentCalls = in.Of(user(agentAccount)).Count(cluster.ByCall)
}

// finish reads what is known only at the end, and judges.
func (b *bed) finish(r *report) error {
	requests, err := b.c.Requests()
	if err != nil {
		return err
	}
	open := requests.Watches(time.Now())
	r.AgentWatches = float64(len(open.Of(user(agentAccount)))) / float64(max(1, b.plan.agents))
	r.OptimizerWatches = open.Of(user(optimizerAccount)).Count(func(q cluster.Request) string { return q.Resource })
	r.PeakMemory = map[string]int64{}
	for _, p := range append(b.c.Processes(), b.redis, b.optimizer) {
		if r.PeakMemory[p.Name], err = peakMemory(p.PID()); err != nil {
			return err
		}
	}
	info, err := redisInfo(b.redisAt)
	if err != nil {
		return err
	}
	if r.RedisMemory, err = strconv.ParseInt(info["used_memory"], 10, 64); err != nil {
		return fmt.Errorf("redis INFO: used_memory: %w", err)
	}
	r.judge()
	return nil
}

// judge holds the figures against the limits.
func (r *report) judge() {
	slowest := 0.0
	for name, s := range r.Busy.Seconds {
		if strings.HasSuffix(name, "_cycle_seconds") {
			slowest = max(slowest, s.MostBelow, r.Quiet.Seconds[name].MostBelow)
		}
	}
	calls := 0
	for _, n := range r.Quiet.OptimizerCalls {
		calls += n
	}
	r.Met = map[string]bool{
		"the optimizer stays under 1 GiB":           r.PeakMemory["optimizer"] < 1<<30,
		"every cycle ends within a period":          slowest > 0 && slowest <= r.PeriodSeconds,
		"an agent holds at most 4 watches":          r.AgentWatches > 0 && r.AgentWatches <= 4,
		"a quiet period costs at most one API call": calls <= r.Quiet.Periods,
		"the control plane is ready within 15 s":    r.StartSeconds < 15,
	}
}

func (r *report) write(path string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the report: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("make the folder of results: %w", err)
	}
	if err := os.WriteFile(path, append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	r.print(path)
	return nil
}

// print tells the main figures.
func (r *report) print(path string) {
	say("%d nodes, %d pods, %d services: ready in %.1f s, filled in %.1f s", r.Nodes, r.Pods, r.Services, r.StartSeconds, r.FillSeconds)
	for _, w := range []window{r.Quiet, r.Busy} {
		say("%d periods, %d pods replaced: optimizer %.2f cores, its API calls %v, an agent's %v; Redis %.0f kB in, %.0f kB out a period",
			w.Periods, w.Changes, w.OptimizerCores, w.OptimizerCalls, w.AgentCalls, w.RedisInPerPeriod/1e3, w.RedisOutPerPeriod/1e3)
		for name, s := range w.Seconds {
			say("  %s: mean %.3f s, all %d within %g s", name, s.Mean, s.Count, s.MostBelow)
		}
	}
	say("peak memory of the optimizer %d MiB; watches: %.1f an agent, optimizer %v", r.PeakMemory["optimizer"]>>20, r.AgentWatches, r.OptimizerWatches)
	lines := []string{}
	for limit, met := range r.Met {
		lines = append(lines, map[bool]string{true: "met: ", false: "NOT met: "}[met]+limit)
	}
	slices.Sort(lines)
	say("%s\nbench-cluster: written to %s", strings.Join(lines, "\nbench-cluster: "), path)
}

// SPDX-License-Identifier: Apache-2.0

package nodeagent

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/edgeweir/weir/internal/wire"
	"github.com/edgeweir/weir/nodeagent/arrivals"
	"github.com/edgeweir/weir/nodeagent/usage"
)

// reading is the counters at one moment, with what is needed to report them.
type reading struct {
	at     time.Time
	totals arrivals.Totals
	// taken are the parts of each service's connections that its pods got.
	taken map[string]ratios
	pods  []usage.Pod
}

// arrivalLives is for how many periods a report stays in Redis.
const arrivalLives = 3

// push reports each reading. A report covers what arrived since the last one
// that Redis took, so nothing is lost while Redis is away; and it carries the
// totals, so that nothing counts twice when only the answer got lost.
func (a *Agent) push(ctx context.Context) error {
	var base *reading // the last reading that Redis took
	for {
		select {
		case <-ctx.Done():
			return nil
		case r := <-a.readings:
			if base == nil { // what was before this agent's time only has a total
				base = &r
				a.sample(ctx, r)
				continue
			}
			report := newReport(a.config, a.boot, a.counter.Attachment(), a.clock, *base, r, a.sample(ctx, r))
			if err := a.put(ctx, report); err != nil {
				a.metrics.pushErrors.Inc()
				a.logger.Warn("arrivals not reported, the next report will hold them", "error", err)
				continue
			}
			a.metrics.pushed.Inc()
			base = &r
		}
	}
}

func (a *Agent) put(ctx context.Context, report *wire.Arrivals) error {
	ctx, cancel := context.WithTimeout(ctx, max(a.config.Period/2, 100*time.Millisecond))
	defer cancel()
	return a.store.PutArrivals(ctx, report, arrivalLives*a.config.Period)
}

// sample measures what the node and its pods consumed since the last call.
func (a *Agent) sample(ctx context.Context, r reading) wire.Usage {
	s, err := a.meter.Sample(ctx, r.pods)
	if err != nil {
		a.logger.Warn("usage of the node is not complete", "error", err)
	}
	a.metrics.usage(s)
	u := wire.Usage{Node: wire.Reading(s.Node), Pods: make(map[string]wire.Reading, len(s.Pods))}
	for pod, reading := range s.Pods {
		u.Pods[pod] = wire.Reading(reading)
	}
	return u
}

// topOrigins is how many origins of a service are told by name.
const topOrigins = 8

// restOrigins is the name under which the other origins are summed up.
const restOrigins = "rest"

// newReport returns what to tell of the time between two readings.
func newReport(c Config, boot string, attachment arrivals.Attachment, clock clock, base, now reading, u wire.Usage) *wire.Arrivals {
	report := &wire.Arrivals{
		Version: wire.Version, Node: c.Node, Agent: c.Version, Boot: boot,
		Counters: now.totals.Epoch, Attachment: string(attachment),
		Period: clock.index(now.at), Start: base.at.UTC(), End: now.at.UTC(),
		Services: map[string]wire.ServiceArrivals{}, Usage: u,
	}
	if !report.End.After(report.Start) { // the wall clock was set back
		report.Start = report.End.Add(-c.Period)
	}
	for name, total := range now.totals.ByService() {
		report.Services[name] = wire.ServiceArrivals{Total: total}
	}
	grown := arrivals.Delta(base.totals, now.totals)
	for name, tasks := range grown.ByService() {
		s := report.Services[name]
		s.Tasks, s.Origins = tasks, originsOfService(grown, name)
		s.Pods = make(map[string]float64, len(now.taken[name]))
		for pod, part := range now.taken[name] {
			s.Pods[pod] = part * float64(tasks)
		}
		report.Services[name] = s
	}
	return report
}

// originsOfService returns a service's tasks by origin: the largest by name, the
// others summed up.
func originsOfService(t arrivals.Totals, service string) map[string]uint64 {
	byOrigin := map[string]uint64{}
	for _, r := range t.Rows {
		if r.Service == service {
			byOrigin[r.Origin] += r.Tasks
		}
	}
	names := make([]string, 0, len(byOrigin))
	for name := range byOrigin {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(byOrigin[b], byOrigin[a]), cmp.Compare(a, b))
	})
	for _, name := range names[min(topOrigins, len(names)):] {
		byOrigin[restOrigins] += byOrigin[name]
		delete(byOrigin, name)
	}
	return byOrigin
}

func bootID() (string, error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("boot id: %w", err)
	}
	return strings.TrimSpace(string(id)), nil
}

// SPDX-License-Identifier: Apache-2.0

package nodeagent

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/edgeweir/weir/nodeagent/arrivals"
	"github.com/edgeweir/weir/nodeagent/ipvs"
	"github.com/edgeweir/weir/nodeagent/usage"
)

const namespace, subsystem = "weir", "agent"

// metrics are the agent's. Counters exist from the start, at 0.
type metrics struct {
	arrivals   *prometheus.CounterVec
	ratio      *prometheus.GaugeVec
	consumed   *prometheus.GaugeVec
	writes     *prometheus.CounterVec
	reconcile  prometheus.Histogram
	attachment *prometheus.GaugeVec
	staleness  prometheus.Gauge
	missing    prometheus.Gauge

	pushed, pushErrors, viewErrors, readErrors prometheus.Counter
	netlinkErrors, hostErrors, clusterErrors   prometheus.Counter
	rebuilds                                   prometheus.Counter

	shown map[string]bool                // services that have series
	stats atomic.Pointer[arrivals.Stats] // of the kernel's side, as last read
}

func newMetrics(registry *prometheus.Registry, c Config) *metrics {
	r := registerer{registry}
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m := &metrics{
		arrivals:   r.counters("arrivals_total", "Tasks that arrived, by service and origin of the client.", "service", "origin"),
		ratio:      r.gauges("wanted_ratio", "Ratio that the agent enforces.", "service", "pod"),
		consumed:   r.gauges("used", "Measured use of the node's resources, in the resource's unit.", "resource"),
		writes:     r.counters("table_writes_total", "Writes of the IPVS table, by kind.", "kind"),
		attachment: r.gauges("attachment_info", "How arrivals are counted; 1 for the way in use.", "attachment"),
		staleness:  r.gauge("ratios_past_stale_limit_periods", "Periods past the stale limit; 0 while the optimizer is heard."),
		missing:    r.gauge("pods_without_usage", "Pods of the node whose use could not be measured in the last period."),

		pushed:        r.counter("reports_total", "Reports of arrivals that Redis took."),
		pushErrors:    r.counter("report_errors_total", "Reports of arrivals that Redis did not take."),
		viewErrors:    r.counter("ratio_read_errors_total", "Readings of ratios that failed in whole or in part."),
		readErrors:    r.counter("count_read_errors_total", "Readings of the kernel's counters that failed."),
		netlinkErrors: r.counter("netlink_errors_total", "Reads and writes of the IPVS table that failed."),
		hostErrors:    r.counter("host_errors_total", "Changes of addresses, rules and sysctls that failed."),
		clusterErrors: r.counter("cluster_errors_total", "Cluster files that were refused."),
		rebuilds:      r.counter("table_rebuilds_total", "Times that virtual servers of ours had vanished and were built again."),
	}
	m.reconcile = prometheus.NewHistogram(prometheus.HistogramOpts{
		Namespace: namespace, Subsystem: subsystem, Name: "reconcile_seconds", Help: "Time from the dump of the table to its last write.",
		Buckets: prometheus.ExponentialBuckets(0.0005, 2, 14),
	})
	registry.MustRegister(m.reconcile)
	m.addStats(r)
	build := r.gauges("build_info", "The build; always 1.", "version", "node")
	build.WithLabelValues(c.Version, c.Node).Set(1)
	for _, k := range []ipvs.Kind{ipvs.CreateService, ipvs.UpdateService, ipvs.RemoveService, ipvs.AddDestination, ipvs.UpdateDestination, ipvs.RemoveDestination} {
		m.writes.WithLabelValues(k.String())
	}
	return m
}

// addStats shows what the kernel's side counts of itself.
func (m *metrics) addStats(r registerer) {
	m.stats.Store(&arrivals.Stats{})
	for name, c := range map[string]struct {
		help  string
		value func(*arrivals.Stats) uint64
	}{
		"count_repeated_total":     {"Retransmitted SYNs and INITs, which are no new tasks.", func(s *arrivals.Stats) uint64 { return s.Repeated }},
		"count_fragments_total":    {"Later fragments, which carry no ports.", func(s *arrivals.Stats) uint64 { return s.Fragments }},
		"count_malformed_total":    {"Packets to services with broken headers.", func(s *arrivals.Stats) uint64 { return s.Malformed }},
		"count_untracked_total":    {"Tasks counted without being remembered: they may have been counted again.", func(s *arrivals.Stats) uint64 { return s.Untracked }},
		"count_origins_full_total": {"Tasks whose origin had no room: they count for their service alone.", func(s *arrivals.Stats) uint64 { return s.OriginsFull }},
		"count_overflow_total":     {"Tasks that no row had room for: their service is not known.", func(s *arrivals.Stats) uint64 { return s.Overflowed }},
	} {
		r.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Namespace: namespace, Subsystem: subsystem, Name: name, Help: c.help},
			func() float64 { return float64(c.value(m.stats.Load())) }))
	}
	for name, g := range map[string]struct {
		help  string
		value func(*arrivals.Stats) uint32
	}{
		"count_rows":     {"Rows of service and origin in use.", func(s *arrivals.Stats) uint32 { return s.Rows }},
		"count_rows_max": {"Room for rows of service and origin.", func(s *arrivals.Stats) uint32 { return s.MaxRows }},
	} {
		r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: namespace, Subsystem: subsystem, Name: name, Help: g.help},
			func() float64 { return float64(g.value(m.stats.Load())) }))
	}
}

// registerer makes and registers metrics of this component.
type registerer struct{ *prometheus.Registry }

func (r registerer) counter(name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Subsystem: subsystem, Name: name, Help: help})
	r.MustRegister(c)
	return c
}

func (r registerer) counters(name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Subsystem: subsystem, Name: name, Help: help}, labels)
	r.MustRegister(c)
	return c
}

func (r registerer) gauge(name, help string) prometheus.Gauge {
	g := prometheus.NewGauge(prometheus.GaugeOpts{Namespace: namespace, Subsystem: subsystem, Name: name, Help: help})
	r.MustRegister(g)
	return g
}

func (r registerer) gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: namespace, Subsystem: subsystem, Name: name, Help: help}, labels)
	r.MustRegister(g)
	return g
}

func (m *metrics) attached(a arrivals.Attachment) {
	for _, kind := range []arrivals.Attachment{arrivals.Netfilter, arrivals.TCX, arrivals.Clsact, arrivals.None} {
		m.attachment.WithLabelValues(string(kind)).Set(0)
	}
	m.attachment.WithLabelValues(string(a)).Set(1)
}

// arrived adds what came in a period.
func (m *metrics) arrived(grown arrivals.Totals) {
	for _, r := range grown.Rows {
		m.arrivals.WithLabelValues(r.Service, r.Origin).Add(float64(r.Tasks))
	}
}

func (m *metrics) wanted(service string, r ratios) {
	m.ratio.DeletePartialMatch(prometheus.Labels{"service": service})
	for pod, v := range r {
		m.ratio.WithLabelValues(service, pod).Set(v)
	}
}

func (m *metrics) usage(s usage.Sample) {
	for resource, v := range s.Node.Used {
		m.consumed.WithLabelValues(resource).Set(v)
	}
	m.missing.Set(float64(len(s.Missing)))
}

func (m *metrics) stale(past float64) { m.staleness.Set(max(0, past)) }

func (m *metrics) reconciled(ops []ipvs.Op, took time.Duration) {
	for _, o := range ops {
		m.writes.WithLabelValues(o.Kind.String()).Inc()
	}
	m.reconcile.Observe(took.Seconds())
}

// forget deletes the series of services that are gone.
func (m *metrics) forget(known map[string]bool) {
	for service := range m.shown {
		if !known[service] {
			m.arrivals.DeletePartialMatch(prometheus.Labels{"service": service})
			m.ratio.DeletePartialMatch(prometheus.Labels{"service": service})
		}
	}
	m.shown = known
}

// SPDX-License-Identifier: Apache-2.0

package optimizer

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/edgeweir/weir/internal/wire"
)

// metrics are the optimizer's. Counters exist from the start, at 0.
type metrics struct {
	readErrors, publishErrors, solveErrors, clusterErrors, rows prometheus.Counter
	degraded, silent                                            prometheus.Gauge
	arrived, served, utilisation                                prometheus.Gauge
	solve                                                       prometheus.Histogram
	tasks                                                       *prometheus.GaugeVec
}

func newMetrics(registry *prometheus.Registry, c Config) *metrics {
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	f := promauto.With(registry)
	counter := func(name, help string) prometheus.Counter {
		return f.NewCounter(prometheus.CounterOpts{Namespace: "weir", Subsystem: "optimizer", Name: name, Help: help})
	}
	gauge := func(name, help string) prometheus.Gauge {
		return f.NewGauge(prometheus.GaugeOpts{Namespace: "weir", Subsystem: "optimizer", Name: name, Help: help})
	}
	m := &metrics{
		readErrors:    counter("report_read_errors_total", "Readings of agents' reports that failed in whole or in part."),
		publishErrors: counter("publish_errors_total", "Cycles whose splits could not be published."),
		solveErrors:   counter("solve_errors_total", "Cycles whose dispatch gave no decision; the last plan stayed."),
		clusterErrors: counter("cluster_errors_total", "Cluster files that were refused."),
		rows:          counter("rows_written_total", "Splits and ratios written to Redis."),
		degraded:      gauge("degraded", "Reasons for which the last cycle was not complete."),
		silent:        gauge("silent_nodes", "Nodes whose agent has not reported for three periods."),
		arrived:       gauge("dispatch_arrived_tasks", "Tasks that arrived in the last period."),
		served:        gauge("dispatch_served_tasks", "Tasks of the last period for which there is room."),
		utilisation:   gauge("dispatch_max_utilisation_ratio", "Utilisation of the fullest pod by the last plan."),
		solve: f.NewHistogram(prometheus.HistogramOpts{Namespace: "weir", Subsystem: "optimizer", Name: "dispatch_solve_seconds",
			Help: "Time to solve dispatch.", Buckets: prometheus.ExponentialBuckets(0.0005, 2, 14)}),
		tasks: f.NewGaugeVec(prometheus.GaugeOpts{Namespace: "weir", Subsystem: "optimizer", Name: "received_tasks",
			Help: "Tasks received from agents since their counters were made."}, []string{"node", "service"}),
	}
	f.NewGaugeVec(prometheus.GaugeOpts{Namespace: "weir", Subsystem: "optimizer", Name: "build_info", Help: "The build; always 1."},
		[]string{"version"}).WithLabelValues(c.Version).Set(1)
	return m
}

func (m *metrics) decided(d *wire.DispatchPlan) {
	m.arrived.Set(d.Arrived)
	m.served.Set(d.Served)
	m.utilisation.Set(d.MaxUtilisation)
	m.solve.Observe(d.SolveMillis / 1000)
}

func (m *metrics) received(node string, byService map[string]uint64) {
	m.tasks.DeletePartialMatch(prometheus.Labels{"node": node})
	for service, n := range byService {
		m.tasks.WithLabelValues(node, service).Set(float64(n))
	}
}

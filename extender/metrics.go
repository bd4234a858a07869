// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// metrics are the extender's. Counters exist from the start, at 0.
type metrics struct {
	calls                                                                 *prometheus.HistogramVec
	claims, landings, letGo, nominations                                  *prometheus.CounterVec
	refreshErrors, settleErrors, explainErrors, reloadErrors, brokenCalls prometheus.Counter
	directives, slots, readAt                                             prometheus.Gauge
}

func newMetrics(registry *prometheus.Registry, version string) *metrics {
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	f := promauto.With(registry)
	counter := func(name, help string) prometheus.Counter {
		return f.NewCounter(prometheus.CounterOpts{Namespace: "weir", Subsystem: "extender", Name: name, Help: help})
	}
	vector := func(name, help, label string, values ...string) *prometheus.CounterVec {
		v := f.NewCounterVec(prometheus.CounterOpts{Namespace: "weir", Subsystem: "extender", Name: name, Help: help}, []string{label})
		for _, value := range values {
			v.WithLabelValues(value)
		}
		return v
	}
	gauge := func(name, help string) prometheus.Gauge {
		return f.NewGauge(prometheus.GaugeOpts{Namespace: "weir", Subsystem: "extender", Name: name, Help: help})
	}
	m := &metrics{
		calls: f.NewHistogramVec(prometheus.HistogramOpts{Namespace: "weir", Subsystem: "extender", Name: "call_seconds",
			Help:    "Time to answer a call, by verb and by how it was answered.",
			Buckets: prometheus.ExponentialBuckets(25e-6, 2, 15)}, []string{"verb", "outcome"}),
		claims:        vector("claims_total", "Claims of slots, by what Redis said.", "result", "granted", "no-slot", "error"),
		landings:      vector("landings_total", "Pods with a slot that were bound or went, by where.", "result", "target", "elsewhere", "vanished"),
		letGo:         vector("let_go_total", "Slots and pods let go, by reason.", "reason", whyNotOffered, whyUnfit, whyUnclaimed, whyWithdrawn, whyRedis),
		nominations:   vector("nominations_total", "Settings of nominatedNodeName, by result.", "result", "done", "error"),
		refreshErrors: counter("refresh_errors_total", "Readings of the directives that failed in whole or in part."),
		settleErrors:  counter("settle_errors_total", "Changes of claims that Redis did not take."),
		explainErrors: counter("explain_errors_total", "Pods that were not told why they were let go."),
		reloadErrors:  counter("tls_reload_errors_total", "Changed certificate files that could not be used; the last good ones stayed."),
		brokenCalls:   counter("broken_calls_total", "Calls that broke off or whose answer was not taken."),
		directives:    gauge("directives", "Directives that can be read."),
		slots:         gauge("free_slots", "Slots that no pod has claimed yet."),
		readAt:        gauge("directives_read_timestamp_seconds", "When the directives were last read."),
	}
	f.NewGaugeVec(prometheus.GaugeOpts{Namespace: "weir", Subsystem: "extender", Name: "build_info", Help: "The build; always 1."},
		[]string{"version"}).WithLabelValues(version).Set(1)
	return m
}

func (m *metrics) read(b *book) {
	free := 0
	for _, d := range b.owners {
		for i := range d.Slots {
			if d.Slots[i].Claim == nil {
				free++
			}
		}
	}
	m.directives.Set(float64(len(b.owners)))
	m.slots.Set(float64(free))
	m.readAt.Set(float64(b.asked.UnixMilli()) / 1000)
}

func (m *metrics) answered(verb string, o outcome, took time.Duration) {
	m.calls.WithLabelValues(verb, string(o)).Observe(took.Seconds())
}

// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Resource is the name of the resource that a pod reports.
const Resource = "workers"

type counter struct{ n atomic.Uint64 }

func (c *counter) add() { c.n.Add(1) }

var (
	usageDesc = prometheus.NewDesc("weir_usage_seconds_total",
		"Time of the resource used so far, in worker-seconds.", []string{"resource"}, nil)
	capacityDesc = prometheus.NewDesc("weir_capacity",
		"How much of the resource there is, in workers.", []string{"resource"}, nil)
	busyDesc = prometheus.NewDesc("pod_busy_workers",
		"Workers that serve a request now.", nil, nil)
	queueDesc = prometheus.NewDesc("pod_queue_length",
		"Requests that wait for a worker.", nil, nil)
	servedDesc = prometheus.NewDesc("pod_requests_served_total",
		"Requests served so far.", nil, nil)
	refusedDesc = prometheus.NewDesc("pod_requests_refused_total",
		"Requests refused because the queue was full or the pod was ending.", nil, nil)
)

// Handler serves /metrics in Prometheus' text format.
func (s *Server) Handler() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collector{s})
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{DisableCompression: true}))
	return mux
}

// collector reads the server's state at every scrape.
type collector struct{ *Server }

func (c collector) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, ch) }

func (c collector) Collect(ch chan<- prometheus.Metric) {
	used, busy, served := c.queue.usage.read(time.Now())
	send := func(d *prometheus.Desc, t prometheus.ValueType, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, t, v, labels...)
	}
	send(usageDesc, prometheus.CounterValue, used.Seconds(), Resource)
	send(capacityDesc, prometheus.GaugeValue, float64(c.cfg.Workers), Resource)
	send(busyDesc, prometheus.GaugeValue, float64(busy))
	send(queueDesc, prometheus.GaugeValue, float64(len(c.queue.waiting)))
	send(servedDesc, prometheus.CounterValue, float64(served))
	send(refusedDesc, prometheus.CounterValue, float64(c.refused.n.Load()))
}

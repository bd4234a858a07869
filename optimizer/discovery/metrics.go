// SPDX-License-Identifier: Apache-2.0

package discovery

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/edgeweir/weir/internal/cluster"
	"github.com/edgeweir/weir/internal/kube"
)

// metrics tell what is kept and what is wrong with it. Their labels are kinds
// and fields, never objects: these are told by Events.
type metrics struct {
	problems *prometheus.GaugeVec
	objects  *prometheus.GaugeVec
	builds   prometheus.Histogram
	fields   map[string]bool // that ever had a problem
}

func newMetrics(registry prometheus.Registerer, stale func() time.Duration) *metrics {
	m := &metrics{
		problems: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "weir_discovery_problems", Help: "Faults of objects of the cluster, by annotation or field.",
		}, []string{"field"}),
		objects: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "weir_discovery_objects", Help: "Objects of the cluster that are watched, by kind.",
		}, []string{"kind"}),
		builds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "weir_discovery_build_seconds", Help: "Time to build the cluster out of the objects that are watched.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 12),
		}),
		fields: map[string]bool{},
	}
	for _, a := range kube.Annotations {
		m.problems.WithLabelValues(kube.Prefix + a.Name)
	}
	registry.MustRegister(m.problems, m.objects, m.builds, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "weir_discovery_stale_seconds", Help: "Time without contact with the API server; 0 while there is.",
	}, func() float64 { return stale().Seconds() }))
	return m
}

// built notes one build. It is called by one goroutine.
func (m *metrics) built(problems []cluster.Problem, counts map[kube.Kind]int, took time.Duration) {
	m.builds.Observe(took.Seconds())
	for kind, n := range counts {
		m.objects.WithLabelValues(string(kind)).Set(float64(n))
	}
	now := map[string]float64{}
	for _, p := range problems {
		now[p.Field]++
		m.fields[p.Field] = true
	}
	for field := range m.fields {
		m.problems.WithLabelValues(field).Set(now[field])
	}
}

// SPDX-License-Identifier: Apache-2.0

package nodeagent

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/edgeweir/weir/nodeagent/arrivals"
)

func TestMetricsFollowConventions(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := newMetrics(registry, Config{Node: "n", Version: "v"})
	m.attached(arrivals.TCX)
	m.arrived(arrivals.Totals{Rows: []arrivals.Row{{Service: "web", Origin: "other", Tasks: 3}}})
	m.wanted("web", ratios{"a": 1})
	m.stats.Store(&arrivals.Stats{Overflowed: 7})
	problems, err := testutil.GatherAndLint(registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	want := "# HELP weir_agent_count_overflow_total Tasks that no row had room for: their service is not known.\n" +
		"# TYPE weir_agent_count_overflow_total counter\nweir_agent_count_overflow_total 7\n"
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "weir_agent_count_overflow_total"); err != nil {
		t.Error(err)
	}
}

func TestSeriesOfGoneServicesAreDeleted(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := newMetrics(registry, Config{})
	m.forget(map[string]bool{"web": true, "dns": true})
	for _, service := range []string{"web", "dns"} {
		m.wanted(service, ratios{"a": 1})
		m.arrived(arrivals.Totals{Rows: []arrivals.Row{{Service: service, Origin: "other", Tasks: 3}}})
	}
	m.wanted("web", ratios{"b": 1}) // pod a has gone
	m.forget(map[string]bool{"web": true})
	if n := testutil.CollectAndCount(m.ratio) + testutil.CollectAndCount(m.arrivals); n != 2 {
		t.Errorf("%d series, want web's two", n)
	}
}

// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

func TestParsePage(t *testing.T) {
	m, err := parsePage([]byte(`# HELP weir_usage_seconds_total Resource-seconds used.
# TYPE weir_usage_seconds_total counter
weir_usage_seconds_total{resource="workers"} 41.5
weir_usage_seconds_total{resource="gpu"} 0
# TYPE weir_capacity gauge
weir_capacity{resource="workers"} 4
http_requests_total{code="200"} 17
`))
	if err != nil {
		t.Fatal(err)
	}
	expect(t, "totals", m.totals, map[string]float64{"workers": 41.5, "gpu": 0})
	expect(t, "capacity", m.capacity, map[string]float64{"workers": 4})
}

func TestParsePageErrors(t *testing.T) {
	var many strings.Builder
	for i := range maxResources + 1 {
		fmt.Fprintf(&many, "weir_usage_seconds_total{resource=\"r%d\"} 1\n", i)
	}
	const fine = "weir_usage_seconds_total{resource=\"workers\"} 1\n"
	for name, c := range map[string]struct{ page, want string }{
		"nothing":        {"", "no weir_usage_seconds_total"},
		"capacity alone": {"weir_capacity{resource=\"workers\"} 1\n", "no weir_usage_seconds_total"},
		"no text":        {"\x00\x01", "text format parsing error"},
		"no label":       {"weir_usage_seconds_total 1\n", "want the one label resource"},
		"other label":    {"weir_usage_seconds_total{kind=\"workers\"} 1\n", "want the one label resource"},
		"empty resource": {"weir_usage_seconds_total{resource=\"\"} 1\n", "want the one label resource"},
		"negative":       {"weir_usage_seconds_total{resource=\"workers\"} -1\n", "-1 is no quantity"},
		"not a number":   {"weir_usage_seconds_total{resource=\"workers\"} NaN\n", "NaN is no quantity"},
		"no limit":       {fine + "weir_capacity{resource=\"workers\"} +Inf\n", "+Inf is no quantity"},
		"twice":          {fine + fine, "told twice"},
		"too many":       {many.String(), "more than 16"},
		"histogram":      {"# TYPE weir_usage_seconds_total histogram\nweir_usage_seconds_total_count{resource=\"workers\"} 1\n", "no quantity"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := parsePage([]byte(c.page)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

// A page is what a pod wants it to be: parsing it ends, and what it yields are
// quantities, few of them.
func FuzzParsePage(f *testing.F) {
	f.Add([]byte("weir_usage_seconds_total{resource=\"workers\"} 41.5\nweir_capacity{resource=\"workers\"} 4\n"))
	f.Add([]byte("# TYPE weir_capacity summary\nweir_capacity{resource=\"a\",quantile=\"0.5\"} NaN\n"))
	f.Add([]byte("weir_usage_seconds_total{resource=\"w\"} 1e308\nweir_usage_seconds_total{resource=\"w\"} -0 17\n"))
	f.Fuzz(func(t *testing.T, page []byte) {
		m, err := parsePage(page)
		if err != nil {
			return
		}
		if len(m.totals) == 0 || len(m.totals) > maxResources || len(m.capacity) > maxResources {
			t.Fatalf("%d totals, %d capacities", len(m.totals), len(m.capacity))
		}
		for _, values := range []map[string]float64{m.totals, m.capacity} {
			for resource, v := range values {
				if resource == "" || v < 0 || math.IsNaN(v) || math.IsInf(v, 0) {
					t.Fatalf("%q: %v", resource, v)
				}
			}
		}
	})
}

// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"math"
	"net"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/edgeweir/weir/test/lab/pod"
)

func TestSharesOfARun(t *testing.T) {
	const log = `{"service":"web","node":"edge-1","pod":"a","start":"2026-01-01T00:00:01Z","totalMillis":1}
{"service":"web","node":"edge-1","pod":"a","start":"2026-01-01T00:00:02Z","totalMillis":2}
{"service":"web","node":"edge-1","pod":"a","start":"2026-01-01T00:00:03Z","totalMillis":3}
{"service":"web","node":"edge-1","pod":"b","start":"2026-01-01T00:00:04Z","totalMillis":4}
{"service":"web","node":"edge-1","start":"2026-01-01T00:00:05Z","totalMillis":5,"error":"timeout"}
{"service":"web","node":"edge-2","pod":"b","start":"2026-01-01T00:00:06Z","totalMillis":6}
`
	records, err := ReadRecords(strings.NewReader(log))
	if err != nil || len(records) != 6 {
		t.Fatalf("%d records, error %v", len(records), err)
	}
	shares := SharesOf(Count(records))
	one, two := shares[Flow{"web", "edge-1"}], shares[Flow{"web", "edge-2"}]
	if one["a"] != 0.75 || one["b"] != 0.25 || two["b"] != 1 || len(shares) != 2 {
		t.Errorf("shares %v", shares)
	}
	from := time.Date(2026, 1, 1, 0, 0, 2, 0, time.UTC)
	if got := Latencies(Between(records, from, from.Add(3*time.Second))); !slices.Equal(got, []float64{2, 3, 4}) {
		t.Errorf("between second 2 and 5: %v", got)
	}
	if _, err := ReadRecords(strings.NewReader(log + "{")); err == nil || !strings.Contains(err.Error(), "line 7") {
		t.Errorf("a broken line: %v", err)
	}
}

func TestMaxDeviation(t *testing.T) {
	one, two := Flow{"web", "edge-1"}, Flow{"web", "edge-2"}
	measured := Shares{one: {"a": 0.5, "b": 0.5}, two: {"a": 0.7, "c": 0.3}}
	for name, c := range map[string]struct {
		want Shares
		size float64
		pod  string
	}{
		"equal":                {measured, 0, ""},
		"a little off":         {Shares{one: {"a": 0.48, "b": 0.52}, two: measured[two]}, 0.02, "a"},
		"a pod never answered": {Shares{one: measured[one], two: {"a": 0.35, "b": 0.4, "c": 0.25}}, 0.4, "b"},
		"a pod not wanted":     {Shares{one: measured[one], two: {"a": 1}}, 0.3, "a"},
	} {
		got := MaxDeviation(measured, c.want)
		if math.Abs(got.Size()-c.size) > 1e-12 || got.Pod != c.pod {
			t.Errorf("%s: %+v, want %v at %q", name, got, c.size, c.pod)
		}
	}
}

func TestPercentileIsANearestRank(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Float64Range(0, 1000), 1, 200).Draw(t, "values")
		p := rapid.Float64Range(0, 100).Draw(t, "p")
		got := Percentile(values, p)
		atMost, below := 0, 0
		for _, v := range values {
			if v <= got {
				atMost++
			}
			if v < got {
				below++
			}
		}
		share := p / 100 * float64(len(values))
		if !slices.Contains(values, got) || float64(atMost) < share || below > 0 && float64(below) >= share {
			t.Fatalf("percentile %v is %v: %d at most, %d below", p, got, atMost, below)
		}
	})
	if got := Percentile(nil, 50); !math.IsNaN(got) {
		t.Errorf("percentile of nothing is %v", got)
	}
}

// A real pod's page, fetched and read.
func TestUtilisationOfAPod(t *testing.T) {
	s, err := pod.New(pod.Config{Name: "a", Workers: 4})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(s.Handler())
	defer web.Close()
	var d net.Dialer
	got, err := SamplePod(t.Context(), d.DialContext, web.URL+"/metrics", pod.Resource)
	if err != nil || got.Capacity != 4 || got.Used != 0 {
		t.Errorf("%+v, error %v", got, err)
	}
	if _, err := SamplePod(t.Context(), d.DialContext, web.URL+"/metrics", "gpu"); err == nil {
		t.Error("a resource that the pod does not tell: no error")
	}
	if _, err := SamplePod(t.Context(), d.DialContext, web.URL+"/other", pod.Resource); err == nil {
		t.Error("a page that is not there: no error")
	}
	start := time.Unix(100, 0)
	before := PodSample{At: start, Used: 10, Capacity: 4}
	after := PodSample{At: start.Add(10 * time.Second), Used: 38, Capacity: 4}
	if u := Utilisation(before, after); u != 0.7 {
		t.Errorf("28 of 40 worker-seconds: %v", u)
	}
	if u := Utilisation(before, before); u != 0 {
		t.Errorf("over no time: %v", u)
	}
}

func TestIdleShare(t *testing.T) {
	before, err := ParseCPU("cpu  100 0 100 700 50 25 25 0 40 0\ncpu0 1 2 3 4 5 6 7 8 9 10\n")
	if err != nil || before != (CPU{Idle: 750, Total: 1000}) {
		t.Errorf("%+v, error %v", before, err)
	}
	if got := IdleShare(before, CPU{Idle: 1500, Total: 2000}); got != 0.75 {
		t.Errorf("idle share %v, want 0.75", got)
	}
	for _, bad := range []string{"", "cpu 1 2 3", "cpu a 2 3 4 5 6 7 8 9 10", "intr 1 2 3 4 5 6 7 8 9"} {
		if _, err := ParseCPU(bad); err == nil {
			t.Errorf("ParseCPU(%q): no error", bad)
		}
	}
	if c, err := ReadCPU(); err != nil || c.Total == 0 || c.Idle > c.Total {
		t.Errorf("this machine: %+v, error %v", c, err)
	}
}

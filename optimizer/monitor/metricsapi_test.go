// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

func TestMetricsAPI(t *testing.T) {
	fresh, old := time.Now().UTC().Format(time.RFC3339), time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	pods := fmt.Sprintf(`{"kind":"PodMetricsList","apiVersion":"metrics.k8s.io/v1beta1","items":[
		{"metadata":{"namespace":"shop","name":"a"},"timestamp":%q,"window":"15s","containers":[
			{"name":"main","usage":{"cpu":"250m","memory":"100Mi"}},{"name":"side","usage":{"cpu":"50000000n","memory":"28Mi"}}]},
		{"metadata":{"namespace":"shop","name":"old"},"timestamp":%q,"window":"15s","containers":[{"name":"main","usage":{"cpu":"1"}}]},
		{"metadata":{"namespace":"shop","name":"odd"},"timestamp":%q,"window":"15s","containers":[{"name":"main","usage":{"cpu":"-1"}}]}]}`, fresh, old, fresh)
	nodes := fmt.Sprintf(`{"kind":"NodeMetricsList","apiVersion":"metrics.k8s.io/v1beta1","items":[
		{"metadata":{"name":"edge-1"},"timestamp":%q,"window":"15s","usage":{"cpu":"1500m","memory":"2Gi"}}]}`, fresh)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case strings.HasSuffix(r.URL.Path, "/pods"):
			fmt.Fprint(w, pods)
		case nodes != "":
			fmt.Fprint(w, nodes)
		default:
			http.Error(w, "the server is currently unable to handle the request", http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	m, err := NewMetricsAPI(&rest.Config{Host: server.URL}, 5*time.Second, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	u, err := m.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if a := u.Pods["shop/a"]; !about(a["cpu"], 0.3) || a["memory"] != 128<<20 || len(u.Pods) != 1 {
		t.Errorf("pods %v", u.Pods)
	}
	if n := u.Nodes["edge-1"]; n["cpu"] != 1.5 || n["memory"] != 2<<30 {
		t.Errorf("nodes %v", u.Nodes)
	}
	if u.Dropped[DroppedStale] != 1 || u.Dropped[DroppedNegative] != 1 {
		t.Errorf("dropped %v, want a stale and a negative one", u.Dropped)
	}
	nodes = ""
	if u, err = m.Read(t.Context()); err == nil || !strings.Contains(err.Error(), "list nodes") || len(u.Pods) != 1 {
		t.Errorf("pods alone: %+v, %v", u, err)
	}
}

// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// PodSample is what a pod's metrics page says of one resource.
type PodSample struct {
	At       time.Time
	Used     float64 // seconds of the resource since the pod began
	Capacity float64
}

// Utilisation is the mean share of its capacity that a pod used between two
// samples; 0 where no time passed or there is no capacity.
func Utilisation(before, after PodSample) float64 {
	available := after.At.Sub(before.At).Seconds() * after.Capacity
	if available <= 0 {
		return 0
	}
	return (after.Used - before.Used) / available
}

// ParsePod reads a metrics page in Prometheus' text format.
func ParsePod(page io.Reader, resource string, at time.Time) (PodSample, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(page)
	if err != nil {
		return PodSample{}, fmt.Errorf("pod metrics: %w", err)
	}
	value := func(name string) (float64, error) {
		for _, m := range families[name].GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "resource" && l.GetValue() == resource {
					return number(m), nil
				}
			}
		}
		return 0, fmt.Errorf("pod metrics: no %s of resource %s", name, resource)
	}
	s := PodSample{At: at}
	if s.Used, err = value("weir_usage_seconds_total"); err != nil {
		return PodSample{}, err
	}
	s.Capacity, err = value("weir_capacity")
	return s, err
}

// number is the value of a counter, gauge or untyped metric: only one is there.
func number(m *dto.Metric) float64 {
	return m.GetCounter().GetValue() + m.GetGauge().GetValue() + m.GetUntyped().GetValue()
}

// SamplePod fetches the metrics page at the address and reads it. The dial
// function reaches into the lab's network namespaces.
func SamplePod(ctx context.Context, dial func(ctx context.Context, network, address string) (net.Conn, error),
	url, resource string) (PodSample, error) {
	client := &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return PodSample{}, fmt.Errorf("pod metrics: %w", err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return PodSample{}, fmt.Errorf("pod metrics: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return PodSample{}, fmt.Errorf("pod metrics: %s: %s", url, resp.Status)
	}
	return ParsePod(resp.Body, resource, time.Now())
}

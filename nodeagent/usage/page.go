// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// What a pod tells of the resources that only it knows:
//
//	weir_usage_seconds_total{resource="workers"} 41.5   counter, resource × seconds
//	weir_capacity{resource="workers"} 4                 gauge, in the resource's unit
//
// The mean use over an interval is the counter's growth divided by its length.
const (
	usageMetric    = "weir_usage_seconds_total"
	capacityMetric = "weir_capacity"
	resourceLabel  = "resource"
)

// Bounds on what a pod can make the agent hold.
const (
	maxPageBytes = 1 << 20
	maxResources = 16
)

// newClient returns a client that stays with the address it was given.
// keepConnections is longer than a period: a page is read once in each.
const keepConnections = 2 * time.Minute

func newClient(o Options) *http.Client {
	return &http.Client{
		Timeout: o.Timeout,
		Transport: &http.Transport{
			MaxIdleConnsPerHost: 1,
			MaxIdleConns:        4 * o.Concurrency,
			IdleConnTimeout:     keepConnections,
			// A page of a few lines costs a pod more to compress than to send.
			DisableCompression: true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return errors.New("redirects are not followed")
		},
	}
}

// fetch reads a pod's page.
func fetch(ctx context.Context, client *http.Client, address string) (measured, error) {
	m := newMeasured()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return m, fmt.Errorf("metrics: %w", err)
	}
	request.Header.Set("Accept", string(expfmt.NewFormat(expfmt.TypeTextPlain)))
	response, err := client.Do(request)
	if err != nil {
		return m, fmt.Errorf("metrics: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return m, fmt.Errorf("metrics: %s answers %s", address, response.Status)
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, maxPageBytes+1))
	if err != nil {
		return m, fmt.Errorf("metrics: read %s: %w", address, err)
	}
	if len(text) > maxPageBytes {
		return m, fmt.Errorf("metrics: %s is longer than %d bytes", address, maxPageBytes)
	}
	if m, err = parsePage(text); err != nil {
		return m, fmt.Errorf("metrics: %s: %w", address, err)
	}
	return m, nil
}

// parsePage takes Weir's two metrics out of a page in Prometheus' text format. A
// page without them is an error: the pod was said to have them.
func parsePage(text []byte) (measured, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		return newMeasured(), err
	}
	m := newMeasured()
	if err := collect(m.totals, families[usageMetric]); err != nil {
		return newMeasured(), err
	}
	if err := collect(m.capacity, families[capacityMetric]); err != nil {
		return newMeasured(), err
	}
	if len(m.totals) == 0 {
		return newMeasured(), fmt.Errorf("no %s", usageMetric)
	}
	return m, nil
}

// collect adds the family's values by resource.
func collect(into map[string]float64, family *dto.MetricFamily) error {
	name := family.GetName()
	if n := len(family.GetMetric()); n > maxResources {
		return fmt.Errorf("%s has %d series, more than %d", name, n, maxResources)
	}
	for _, series := range family.GetMetric() {
		labels := series.GetLabel()
		if len(labels) != 1 || labels[0].GetName() != resourceLabel || labels[0].GetValue() == "" {
			return fmt.Errorf("%s: want the one label %s with a value", name, resourceLabel)
		}
		resource, value := labels[0].GetValue(), valueOf(series)
		if math.IsNaN(value) || math.IsInf(value, 0) || value < 0 {
			return fmt.Errorf("%s of %q: %v is no quantity", name, resource, value)
		}
		if _, twice := into[resource]; twice {
			return fmt.Errorf("%s of %q: told twice", name, resource)
		}
		into[resource] = value
	}
	return nil
}

// valueOf returns the value of a series whose type the page may not have told.
func valueOf(series *dto.Metric) float64 {
	switch {
	case series.Counter != nil:
		return series.GetCounter().GetValue()
	case series.Gauge != nil:
		return series.GetGauge().GetValue()
	case series.Untyped != nil:
		return series.GetUntyped().GetValue()
	}
	return math.NaN()
}

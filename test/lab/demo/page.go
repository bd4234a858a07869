// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"maps"
	"slices"
)

//go:embed page.html.tmpl
var pageText string

var pageTemplate = template.Must(template.New("report").Funcs(template.FuncMap{
	"percent": func(v float64) string { return fmt.Sprintf("%.0f%%", 100*v) },
	"millis":  func(v float64) string { return fmt.Sprintf("%.0f", v) },
	"share":   func(v float64) string { return fmt.Sprintf("%.3f", v) },
	"pods":    func(m map[string]float64) []string { return slices.Sorted(maps.Keys(m)) },
}).Parse(pageText))

// sentence tells the result in plain words.
func (r *Report) sentence() string {
	rr, weir := r.Phases["rr"], r.Phases["weir"]
	return fmt.Sprintf("At %.0f%% load round robin answers 99%% of requests within %.1f s, Weir within %.1f s; "+
		"eBPF counted %d of %d connections, IPVS %d, and %d failed under Weir.",
		100*weir.Load, rr.P99Millis/1000, weir.P99Millis/1000, r.Counted, r.Connections, r.IPVSConnections,
		weir.Failed+r.Phases["weirWrr"].Failed)
}

// page renders the report as one self-contained HTML file.
func (r *Report) page() ([]byte, error) {
	latency, err := r.latencyPlot()
	if err != nil {
		return nil, err
	}
	busy, err := r.utilisationPlot()
	if err != nil {
		return nil, err
	}
	var order []PhaseReport
	for _, v := range variants {
		order = append(order, r.Phases[v.key])
	}
	var page bytes.Buffer
	err = pageTemplate.Execute(&page, map[string]any{
		"Report": r, "Sentence": r.sentence(), "Phases": order, "Latency": latency, "Utilisation": busy,
	})
	if err != nil {
		return nil, fmt.Errorf("report page: %w", err)
	}
	return page.Bytes(), nil
}

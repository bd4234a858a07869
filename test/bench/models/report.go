// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// document is models.json.
type document struct {
	CPUs    int      `json:"cpus"`
	Go      string   `json:"go"`
	Results []result `json:"results"`
	Ratios  []ratio  `json:"ratios"`
}

// ratio compares a contender with its peer on one instance.
type ratio struct {
	Model     string `json:"model"`
	Size      string `json:"size"`
	Kind      string `json:"kind"`
	Contender string `json:"contender"`
	Peer      string `json:"peer"`
	// Faster is the peer's time, model building included and decoding not, over the contender's.
	Faster float64 `json:"faster"`
	// Difference is (contender's objective − peer's) / |peer's|, 0 where both are 0.
	Difference float64 `json:"difference"`
}

var peers = []string{contenderPuLP, contenderGreedy, contenderFirstFit}

// report writes models.json and models.md.
func (c *config) report(results []result) error {
	if err := os.MkdirAll(c.out, 0o755); err != nil {
		return fmt.Errorf("make %s: %w", c.out, err)
	}
	d := document{CPUs: runtime.NumCPU(), Go: runtime.Version(), Results: results, Ratios: ratios(results)}
	text, err := json.MarshalIndent(d, "", " ")
	if err != nil {
		return fmt.Errorf("encode results: %w", err)
	}
	if err := os.WriteFile(filepath.Join(c.out, "models.json"), append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("write results: %w", err)
	}
	if err := os.WriteFile(filepath.Join(c.out, "models.md"), []byte(d.markdown()), 0o644); err != nil {
		return fmt.Errorf("write results: %w", err)
	}
	return nil
}

func ratios(results []result) []ratio {
	var out []ratio
	for _, peer := range results {
		if peer.Runs == 0 || !isPeer(peer.Contender) {
			continue
		}
		for _, r := range results {
			if r.Runs == 0 || r.Model != peer.Model || r.Size != peer.Size || r.Kind != peer.Kind || isPeer(r.Contender) {
				continue
			}
			out = append(out, ratio{r.Model, r.Size, r.Kind, r.Contender, peer.Contender,
				(peer.BuildMillis + peer.SolveMillis) / (r.BuildMillis + r.SolveMillis),
				(r.Objective - peer.Objective) / math.Max(math.SmallestNonzeroFloat64, math.Abs(peer.Objective))})
		}
	}
	return out
}

func isPeer(contender string) bool {
	for _, p := range peers {
		if p == contender {
			return true
		}
	}
	return false
}

func (d *document) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# The models and their peers\n\n%d CPUs, %s. Medians; times in ms, memory at its peak in MiB.\n", d.CPUs, d.Go)
	last := ""
	for _, r := range d.Results {
		if r.Model != last {
			fmt.Fprintf(&b, "\n## %s\n\n| size | instance | contender | status | objective | gap | decode | build | solve | encode | memory |%s\n"+
				"|---|---|---|---|---:|---:|---:|---:|---:|---:|---:|%s\n", r.Model, only(r.Model == "migration", " moves | between nodes |"),
				only(r.Model == "migration", "---:|---:|"))
			last = r.Model
		}
		if r.Error != "" {
			fmt.Fprintf(&b, "| %s | %s | %s | %s | | | | | | | |\n", r.Size, r.Kind, r.Contender, strings.ReplaceAll(r.Error, "|", "/"))
			continue
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %.9g | %.2f%% | %.4g | %.4g | %.4g | %.4g | %.0f |%s\n", r.Size, r.Kind, r.Contender, r.Status,
			r.Objective, 100*r.Gap, r.DecodeMillis, r.BuildMillis, r.SolveMillis, r.EncodeMillis, r.PeakMiB,
			only(r.Model == "migration", fmt.Sprintf(" %d | %.4g |", r.Moves, r.BetweenNodes)))
	}
	b.WriteString("\n## Beside the peers\n\n| model | size | instance | contender | peer | times faster | objective, relative difference |\n" +
		"|---|---|---|---|---|---:|---:|\n")
	for _, r := range d.Ratios {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %.4g | %.3g |\n", r.Model, r.Size, r.Kind, r.Contender, r.Peer, r.Faster, r.Difference)
	}
	return b.String()
}

func only(when bool, text string) string {
	if when {
		return text
	}
	return ""
}

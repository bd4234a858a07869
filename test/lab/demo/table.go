// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/edgeweir/weir/test/lab/load"
	"github.com/edgeweir/weir/test/lab/measure"
)

// screen shows a phase while it runs: on a terminal a table that is drawn over,
// else a line every few seconds.
type screen struct {
	out      io.Writer
	live     bool
	scenario Scenario
	last     time.Time
}

// lineEvery is how often a line is written where there is no terminal.
const lineEvery = 10 * time.Second

const clear = "\x1b[H\x1b[2J"

func (s *screen) say(format string, args ...any) { fmt.Fprintf(s.out, format+"\n", args...) }

// show draws the newest sample of p.
func (s *screen) show(p *phase, now load.Progress) {
	newest := p.samples[len(p.samples)-1]
	total := s.scenario.Warm + s.scenario.steady(p.variant)
	head := fmt.Sprintf("%s: %.0f of %.0f s, %d connections, %d in flight, %d failed",
		p.variant.title, now.ElapsedSeconds, total.Seconds(), now.Total.Connections, now.InFlight, now.Total.Failed)
	if !s.live {
		if newest.at.Sub(s.last) >= lineEvery {
			s.last = newest.at
			s.say("  %s, pods at %s", head, s.utilisations(p))
		}
		return
	}
	var text strings.Builder
	text.WriteString(clear)
	fmt.Fprintln(&text, head)
	fmt.Fprintln(&text)
	s.table(&text, p, newest)
	io.WriteString(s.out, text.String())
}

// table shows per service and node what arrives, and per pod ratio and weight at
// each node and how busy it is.
func (s *screen) table(w io.Writer, p *phase, newest *sample) {
	t := table.NewWriter()
	t.SetOutputMirror(w)
	t.SetStyle(table.StyleLight)
	nodes := slices.Sorted(maps.Keys(newest.agents))
	header := table.Row{"service", "pod", "workers", "busy"}
	for _, n := range nodes {
		header = append(header, n+" ratio", "weight")
	}
	t.AppendHeader(header)
	busy := utilisation(p)
	for _, l := range s.scenario.Services {
		arrivals := table.Row{l.Name, "arrivals a period", "", ""}
		for _, n := range nodes {
			v := serverOf(newest, n, l.Name)
			arrivals = append(arrivals, fmt.Sprintf("%.0f", v.expected), v.scheduler)
		}
		t.AppendRow(arrivals)
		for _, pod := range l.Pods {
			row := table.Row{"", pod.Name, pod.Workers, fmt.Sprintf("%3.0f%%", 100*busy[pod.Name])}
			for _, n := range nodes {
				v := serverOf(newest, n, l.Name)
				row = append(row, fmt.Sprintf("%.3f", v.ratio[pod.Name]), v.weight[pod.Name])
			}
			t.AppendRow(row)
		}
		t.AppendSeparator()
	}
	t.Render()
}

// serverView is one service at one node, as the agent showed it.
type serverView struct {
	expected  float64
	scheduler string
	ratio     map[string]float64
	weight    map[string]uint32
}

func serverOf(s *sample, node, service string) serverView {
	v := serverView{ratio: map[string]float64{}, weight: map[string]uint32{}}
	for _, row := range s.agents[node].Services {
		if row.Service == service {
			v.expected, v.scheduler = row.Expected, row.Scheduler
			for pod, state := range row.Pods {
				v.ratio[pod], v.weight[pod] = state.Ratio, state.Weight
			}
		}
	}
	return v
}

// utilisation returns how busy the pods were over the last few samples.
func utilisation(p *phase) map[string]float64 {
	const window = 5
	first, last := p.samples[max(0, len(p.samples)-window)], p.samples[len(p.samples)-1]
	busy := map[string]float64{}
	for pod, now := range last.pods {
		busy[pod] = measure.Utilisation(first.pods[pod], now)
	}
	return busy
}

func (s *screen) utilisations(p *phase) string {
	busy := utilisation(p)
	low, high := 1.0, 0.0
	for _, u := range busy {
		low, high = min(low, u), max(high, u)
	}
	return fmt.Sprintf("%.0f%% to %.0f%%", 100*low, 100*high)
}

// summary shows what came of all phases.
func (s *screen) summary(r *Report) {
	if s.live {
		io.WriteString(s.out, clear)
	}
	t := table.NewWriter()
	t.SetOutputMirror(s.out)
	t.SetStyle(table.StyleLight)
	t.AppendHeader(table.Row{fmt.Sprintf("at %.0f%% load", 100*s.scenario.Load), "offered", "failed", "p50 ms", "p99 ms", "pods busy", "apart in a service", "idle CPU"})
	for _, v := range variants {
		p := r.Phases[v.key]
		t.AppendRow(table.Row{
			v.title, p.Offered, p.Failed, fmt.Sprintf("%.0f", p.P50Millis), fmt.Sprintf("%.0f", p.P99Millis),
			fmt.Sprintf("%.0f%% to %.0f%%", 100*p.PodUtilisationMin, 100*p.PodUtilisationMax),
			fmt.Sprintf("%.2f", p.UtilisationSpread), fmt.Sprintf("%.0f%%", 100*p.IdleShare),
		})
	}
	t.Render()
	s.say("%s", r.sentence())
}

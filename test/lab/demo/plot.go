// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"bytes"
	"fmt"
	"html/template"
	"image/color"
	"maps"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/edgeweir/weir/test/lab/measure"
)

// colours tell the phases apart; they read well on white and on black, and for
// people who don't see red and green apart.
var colours = map[string]color.Color{
	"rr":      color.RGBA{0xd5, 0x5e, 0x00, 0xff},
	"weir":    color.RGBA{0x00, 0x72, 0xb2, 0xff},
	"weirWrr": color.RGBA{0x00, 0x9e, 0x73, 0xff},
}

// percentiles are the marks of the latency plot, on a scale of nines.
var percentiles = []float64{0, 50, 90, 99, 99.9}

// nines is the scale on which 90, 99 and 99.9% stand equally far apart.
func nines(p float64) float64 { return -math.Log10(1 - p/100) }

// latencyPlot shows the latency at each percentile.
func (r *Report) latencyPlot() (template.HTML, error) {
	p := newPlot("percentile of requests", "latency in ms")
	p.Legend.XOffs = 10 * vg.Centimeter // below the curves
	p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	ticks := plot.ConstantTicks{}
	for _, v := range percentiles {
		ticks = append(ticks, plot.Tick{Value: nines(v), Label: fmt.Sprintf("%g%%", v)})
	}
	p.X.Tick.Marker = ticks
	for _, v := range variants {
		var points plotter.XYs
		latencies := r.Phases[v.key].latencies
		// Beyond the last percentile with ten values in it, chance speaks.
		most := nines(100 * (1 - 10/float64(len(latencies))))
		for x := 0.0; x <= min(most, nines(99.9)); x += 0.02 {
			points = append(points, plotter.XY{X: x, Y: max(measure.Percentile(latencies, 100*(1-math.Pow(10, -x))), 0.1)})
		}
		line, err := plotter.NewLine(points)
		if err != nil {
			return "", fmt.Errorf("latency plot: %w", err)
		}
		line.Color, line.Width = colours[v.key], vg.Points(2)
		p.Add(line)
		p.Legend.Add(v.title, line)
	}
	return render(p, 16*vg.Centimeter, 9*vg.Centimeter)
}

// utilisationPlot shows how busy each pod was in each phase.
func (r *Report) utilisationPlot() (template.HTML, error) {
	p := newPlot("", "busy workers")
	p.Y.Min, p.Y.Max = 0, 1.3 // room for the legend above the bars
	p.Legend.Top = true
	pods := slices.Sorted(maps.Keys(r.Phases[variants[0].key].PodUtilisation))
	width := vg.Points(12)
	for i, v := range variants {
		values := make(plotter.Values, len(pods))
		for j, pod := range pods {
			values[j] = r.Phases[v.key].PodUtilisation[pod]
		}
		bars, err := plotter.NewBarChart(values, width)
		if err != nil {
			return "", fmt.Errorf("utilisation plot: %w", err)
		}
		bars.Color, bars.LineStyle.Width = colours[v.key], 0
		bars.Offset = vg.Length(i-1) * (width + vg.Points(1))
		p.Add(bars)
		p.Legend.Add(v.title, bars)
	}
	p.NominalX(pods...)
	p.X.Min, p.X.Max = -0.5, float64(len(pods))-0.5
	return render(p, 20*vg.Centimeter, 8*vg.Centimeter)
}

func newPlot(x, y string) *plot.Plot {
	p := plot.New()
	p.X.Label.Text, p.Y.Label.Text = x, y
	for _, style := range []*draw.TextStyle{&p.X.Label.TextStyle, &p.Y.Label.TextStyle, &p.X.Tick.Label, &p.Y.Tick.Label, &p.Legend.TextStyle} {
		style.Font.Size = vg.Points(9)
	}
	p.Legend.Left = true // names behind their colours: a browser's font may be wider
	p.Legend.Padding = vg.Points(3)
	p.BackgroundColor = color.Transparent
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = color.Gray{0xb0}, color.Transparent
	grid.Horizontal.Width = vg.Points(0.3)
	p.Add(grid)
	return p
}

// render returns the plot as an SVG element that takes the page's text colour
// and width.
func render(p *plot.Plot, width, height vg.Length) (template.HTML, error) {
	canvas := vgsvg.New(width, height)
	p.Draw(draw.New(canvas))
	var svg bytes.Buffer
	if _, err := canvas.WriteTo(&svg); err != nil {
		return "", fmt.Errorf("draw plot: %w", err)
	}
	_, element, found := strings.Cut(svg.String(), "<svg")
	if !found {
		return "", fmt.Errorf("draw plot: no svg element")
	}
	element = strings.NewReplacer(
		"fill:#000000", "fill:currentColor", "stroke:#000000", "stroke:currentColor",
	).Replace(element)
	return template.HTML("<svg" + element), nil
}

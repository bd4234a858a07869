// SPDX-License-Identifier: Apache-2.0

package model

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Decisions is what `optimizer solve` prints (design 11).
type Decisions struct {
	Dispatch  *DispatchDecision  `json:"dispatch,omitempty"`
	Migration *MigrationDecision `json:"migration,omitempty"`
	Scaling   *ScalingDecision   `json:"scaling,omitempty"`
}

// Decision statuses.
const (
	StatusOptimal  = "optimal"  // proven
	StatusFeasible = "feasible" // the time ended before the proof
)

// DispatchDecision splits every arrival over pods. Arrived, Served and Bound are in tasks per period; Bound is
// the throughput stage's dual bound, above which no split can serve.
type DispatchDecision struct {
	Status         string   `json:"status"`
	Arrived        float64  `json:"arrived"`
	Served         float64  `json:"served"`
	Bound          float64  `json:"bound"`
	MaxUtilisation float64  `json:"maxUtilisation"` // over pods and rate resources, base load included
	SolveMillis    float64  `json:"solveMillis"`
	Ratios         []Ratio  `json:"ratios"`
	Why            []string `json:"why"`
}

// Ratio is the split of one service at one node: Pods hold y and sum to Admitted. The entry with an empty node
// is the split of every node that is not listed.
type Ratio struct {
	Service  string  `json:"service"`
	Node     string  `json:"node"`
	Admitted float64 `json:"admitted"`
	Pods     Split   `json:"pods"`
}

// Split is a set of shares, ordered by pod, written as a JSON object. Many ratios share the memory of one
// split; treat it as read only.
type Split []Share

// Share is the part of a service's tasks at a node that goes to Pod.
type Share struct {
	Pod   string
	Ratio float64
}

// MarshalJSON writes {"pod": ratio, …}.
func (s Split) MarshalJSON() ([]byte, error) { return s.append(nil), nil }

func (s Split) append(b []byte) []byte {
	b = append(b, '{')
	for i, share := range s {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendText(b, share.Pod)
		b = append(b, ':')
		b = strconv.AppendFloat(b, share.Ratio, 'g', -1, 64)
	}
	return append(b, '}')
}

// UnmarshalJSON reads {"pod": ratio, …}.
func (s *Split) UnmarshalJSON(data []byte) error {
	var m map[string]float64
	if err := json.Unmarshal(data, &m); err != nil {
		return fmt.Errorf("split: %w", err)
	}
	*s = make(Split, 0, len(m))
	for pod, ratio := range m {
		*s = append(*s, Share{pod, ratio})
	}
	slices.SortFunc(*s, func(a, b Share) int { return strings.Compare(a.Pod, b.Pod) })
	return nil
}

// MigrationDecision is the plan of the migration model (design 4). Before, After and Bound are values of the whole
// objective, moveCost·moves included; WithinNodes = Σ_n var_k(r_nk) and BetweenNodes = var_n(r_n), without
// clusterWeight, are those of the plan. Gap is (After − Bound)/After and Left (After − Bound)/(Before − Bound), both
// in 0..1 and 0 where the plan is proven. Seconds is what the moves take, of Budget; all seconds are counted one move
// after another.
type MigrationDecision struct {
	Status       string   `json:"status"`
	Before       float64  `json:"before"`
	After        float64  `json:"after"`
	Bound        float64  `json:"bound"`
	Gap          float64  `json:"gap"`
	Left         float64  `json:"left"`
	WithinNodes  float64  `json:"withinNodes"`
	BetweenNodes float64  `json:"betweenNodes"`
	Seconds      float64  `json:"seconds"`
	Budget       float64  `json:"budget"`
	Moves        []Move   `json:"moves"`
	SolveMillis  float64  `json:"solveMillis"`
	Why          []string `json:"why"`
}

// Move takes one pod to another node.
type Move struct {
	Pod     string  `json:"pod"`
	From    string  `json:"from"`
	To      string  `json:"to"`
	Seconds float64 `json:"seconds"`
}

// ScalingDecision is the plan of the scaling model (design 5). Cost includes Penalty.
type ScalingDecision struct {
	Status      string     `json:"status"`
	Cost        float64    `json:"cost"`
	Penalty     float64    `json:"penalty"`
	Bound       float64    `json:"bound"`
	Gap         float64    `json:"gap"`
	Replicas    []Replicas `json:"replicas"`
	SolveMillis float64    `json:"solveMillis"`
	Why         []string   `json:"why"`
}

// Replicas is the size of one service's workload, and where its pods go.
type Replicas struct {
	Service string         `json:"service"`
	Current int            `json:"current"`
	Total   int            `json:"total"`
	Unmet   float64        `json:"unmet"`
	Short   int            `json:"short"`
	Nodes   map[string]int `json:"nodes"`
}

// WriteJSON writes the decisions, one ratio per line. It streams, and writes a split that many ratios share
// from one buffer: a dense cluster's decision is larger than memory should hold twice.
func (d *Decisions) WriteJSON(w io.Writer) error {
	out := bufio.NewWriterSize(w, 1<<16)
	out.WriteByte('{')
	first := true
	key := func(name string) {
		if !first {
			out.WriteString(",\n ")
		}
		first = false
		fmt.Fprintf(out, "%q: ", name)
	}
	if d.Dispatch != nil {
		key("dispatch")
		if err := d.Dispatch.write(out); err != nil {
			return err
		}
	}
	if d.Migration != nil {
		key("migration")
		if err := writeValue(out, d.Migration); err != nil {
			return err
		}
	}
	if d.Scaling != nil {
		key("scaling")
		if err := writeValue(out, d.Scaling); err != nil {
			return err
		}
	}
	out.WriteString("}\n")
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write decisions: %w", err)
	}
	return nil
}

func (d *DispatchDecision) write(out *bufio.Writer) error {
	head := *d
	head.Ratios, head.Why = nil, nil
	plain, err := json.Marshal(&head)
	if err != nil {
		return fmt.Errorf("encode dispatch: %w", err)
	}
	out.Write(bytes.TrimSuffix(plain, []byte(`"ratios":null,"why":null}`)))
	out.WriteString(`"ratios": [`)
	texts := splitTexts{}
	var line []byte
	for i := range d.Ratios {
		r := &d.Ratios[i]
		line = append(line[:0], ",\n  "...)
		if i == 0 {
			line = line[1:]
		}
		line = append(line, `{"service":`...)
		line = appendText(line, r.Service)
		line = append(line, `,"node":`...)
		line = appendText(line, r.Node)
		line = append(line, `,"admitted":`...)
		line = strconv.AppendFloat(line, r.Admitted, 'g', -1, 64)
		line = append(line, `,"pods":`...)
		out.Write(line)
		out.Write(texts.of(r.Pods))
		out.WriteByte('}')
	}
	out.WriteString("],\n  \"why\": ")
	why := d.Why
	if why == nil {
		why = []string{}
	}
	if err := writeValue(out, why); err != nil {
		return err
	}
	return out.WriteByte('}')
}

func writeValue(out *bufio.Writer, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode decision: %w", err)
	}
	_, err = out.Write(b)
	return err
}

// splitTexts keeps the text of the splits that were written last, by their memory.
type splitTexts struct{ known map[*Share][]byte }

func (t *splitTexts) of(s Split) []byte {
	if len(s) == 0 {
		return []byte("{}")
	}
	if b, ok := t.known[&s[0]]; ok {
		return b
	}
	const most = 4096
	if t.known == nil || len(t.known) >= most {
		t.known = make(map[*Share][]byte, most)
	}
	b := s.append(nil)
	t.known[&s[0]] = b
	return b
}

// appendText appends a JSON string. Names are plain in all but odd inputs.
func appendText(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= 0x7f {
			q, _ := json.Marshal(s) // a string always encodes
			return append(b, q...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

// publish rounds a number for print: 12 significant digits hide the last bits of sums.
func publish(v float64) float64 {
	if v == 0 || math.IsInf(v, 0) || math.IsNaN(v) {
		return 0
	}
	r, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 12, 64), 64) // a formatted float parses
	return r
}

// SPDX-License-Identifier: Apache-2.0

// Package load is an open-loop load generator. Connections start when a seeded
// Poisson process says, whether or not earlier ones have ended, and their latency
// counts from that moment, so that a slow server can't slow down its own measure
// (no coordinated omission). Every connection is logged with the pod that
// answered: what kernels and agents count is compared with this log.
package load

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/netip"
	"time"
)

// Plan says what to send. Its JSON form is the same with durations as Go strings.
type Plan struct {
	Seed           uint64   `json:"seed"`
	Duration       Duration `json:"duration"`       // arrivals happen within it
	Timeout        Duration `json:"timeout"`        // per connection, from its intended start
	MaxConnections int      `json:"maxConnections"` // a plan that asks for more is refused
	MaxConcurrent  int      `json:"maxConcurrent"`  // beyond it arrivals are skipped, and counted as failed
	FirstPort      uint16   `json:"firstPort"`      // of every source address; 0 is 10000
	Streams        []Stream `json:"streams"`
}

// Stream is the arrivals of one service at one node.
type Stream struct {
	Service  string         `json:"service"`
	Node     string         `json:"node"`
	Protocol string         `json:"protocol"` // tcp or udp; "" is tcp
	Source   netip.Addr     `json:"source"`   // address to send from; it chooses the node
	Target   netip.AddrPort `json:"target"`
	Rate     float64        `json:"rate"` // mean arrivals per second
}

// Duration is a time.Duration that JSON writes as a Go string, such as "1m30s".
type Duration time.Duration

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	*d = Duration(v)
	return err
}

const (
	defaultFirstPort = 10000
	lastPort         = 65535
)

// ReadPlan decodes and checks a plan. Unknown fields are errors.
func ReadPlan(r io.Reader) (*Plan, error) {
	dec := json.NewDecoder(r)
	dec.DisallowUnknownFields()
	var p Plan
	if err := dec.Decode(&p); err != nil {
		return nil, fmt.Errorf("load plan: %w", err)
	}
	if rest, err := io.ReadAll(io.MultiReader(dec.Buffered(), r)); err != nil || len(bytes.TrimSpace(rest)) > 0 {
		return nil, errors.New("load plan: more than one JSON value")
	}
	if err := p.Check(); err != nil {
		return nil, err
	}
	return &p, nil
}

// Check fills in defaults and tells the first field that is wrong.
func (p *Plan) Check() error {
	if p.FirstPort == 0 {
		p.FirstPort = defaultFirstPort
	}
	bad := func(field string, value any, want string) error {
		return fmt.Errorf("load plan: %s is %v, want %s", field, value, want)
	}
	switch {
	case p.Duration <= 0:
		return bad("duration", time.Duration(p.Duration), "more than 0")
	case p.Timeout <= 0:
		return bad("timeout", time.Duration(p.Timeout), "more than 0")
	case p.MaxConnections <= 0:
		return bad("maxConnections", p.MaxConnections, "more than 0")
	case p.MaxConcurrent <= 0:
		return bad("maxConcurrent", p.MaxConcurrent, "more than 0")
	case p.FirstPort < 1024:
		return bad("firstPort", p.FirstPort, "1024 or more")
	case len(p.Streams) == 0:
		return bad("streams", "empty", "at least one")
	}
	seen := map[[2]string]bool{}
	for i := range p.Streams {
		s := &p.Streams[i]
		if s.Protocol == "" {
			s.Protocol = "tcp"
		}
		at := fmt.Sprintf("streams[%d].", i)
		key := [2]string{s.Service, s.Node}
		switch {
		case s.Service == "" || s.Node == "":
			return bad(at+"service, node", key, "names")
		case seen[key]:
			return bad(at+"service, node", key, "each pair once")
		case s.Protocol != "tcp" && s.Protocol != "udp":
			return bad(at+"protocol", s.Protocol, "tcp or udp")
		case !s.Target.IsValid():
			return bad(at+"target", s.Target, "address:port")
		case s.Source.Is4() != s.Target.Addr().Is4():
			return bad(at+"source", s.Source, "an address of the target's family")
		case !(s.Rate >= 0) || math.IsInf(s.Rate, 0):
			return bad(at+"rate", s.Rate, "0 or more per second")
		}
		seen[key] = true
	}
	return nil
}

// SPDX-License-Identifier: Apache-2.0

package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/edgeweir/weir/internal/wire"
)

// Dispatch is what the optimizer publishes of one period.
type Dispatch struct {
	Epoch, Period int64
	// Splits and Ratios are the rows to write; a row lives for Life.
	Splits []wire.Split
	Ratios []wire.Ratios
	Life   time.Duration
	Plan   wire.Plan
	// State is nil where it is not due.
	State *wire.State
	// Keep names services and nodes whose rows are to live for Life again as
	// they are.
	KeepServices, KeepNodes []string
}

// PutDispatch writes d and tells the agents. The pulse goes last, so that an
// agent that sees it also sees the rows. ErrFenced means that a later leader
// has begun and nothing more was written.
func (s *Store) PutDispatch(ctx context.Context, d *Dispatch) error {
	var rows []row
	for i := range d.Splits {
		r := &d.Splits[i]
		rows = append(rows, row{key: s.splitKey(r.Service, r.Zone), message: r, life: d.Life})
	}
	for i := range d.Ratios {
		r := &d.Ratios[i]
		rows = append(rows, row{key: s.ratiosKey(r.Node), message: r, life: d.Life})
	}
	pulse := wire.Pulse{Version: wire.Version, Epoch: d.Epoch, Period: d.Period, At: d.Plan.At}
	if d.State != nil {
		rows = append(rows, row{key: s.key("state"), message: d.State})
	}
	if err := s.keep(ctx, d); err != nil {
		return err
	}
	rows = append(rows,
		row{key: s.key("plan"), message: &d.Plan},
		row{key: s.key("pulse"), message: &pulse, life: d.Life})
	if err := s.write(ctx, d.Epoch, rows); err != nil {
		return err
	}
	// Reading never depends on the notice: it only saves a wait.
	if err := s.client.Publish(ctx, s.key("dispatch"), d.Period).Err(); err != nil {
		return fmt.Errorf("redis PUBLISH %s: %w", s.key("dispatch"), err)
	}
	return nil
}

// View is what an agent reads of the optimizer's work.
type View struct {
	// Pulse is nil when the optimizer is silent.
	Pulse *wire.Pulse
	// Shares holds the narrowest split by service: the node's own, else its
	// zone's, else the overall one. A service without any is absent.
	Shares map[string]wire.Share
}

// View returns what holds at a node for services. The error joins one KeyError
// per value that can't be used; the others are returned all the same.
func (s *Store) View(ctx context.Context, node, zone string, services []string) (View, error) {
	keys := []string{s.key("pulse"), s.ratiosKey(node)}
	for _, l := range services {
		keys = append(keys, s.splitKey(l, ""))
		if zone != "" {
			keys = append(keys, s.splitKey(l, zone))
		}
	}
	values, err := s.get(ctx, keys)
	if err != nil {
		return View{}, err
	}
	v := View{Shares: make(map[string]wire.Share, len(services))}
	bad := []error{v.readPulse(s.key("pulse"), values)}
	for _, l := range services {
		bad = append(bad, v.readSplit(s.splitKey(l, ""), values, l, ""))
		if zone != "" {
			bad = append(bad, v.readSplit(s.splitKey(l, zone), values, l, zone))
		}
	}
	bad = append(bad, v.readRatios(s.ratiosKey(node), values, node, services))
	return v, errors.Join(bad...)
}

func (v *View) readPulse(key string, values map[string]string) error {
	value, ok := values[key]
	if !ok {
		return nil
	}
	p, err := decode[wire.Pulse](key, value, func(*wire.Pulse) error { return nil })
	if err != nil {
		return err
	}
	v.Pulse = &p
	return nil
}

func (v *View) readSplit(key string, values map[string]string, service, zone string) error {
	value, ok := values[key]
	if !ok {
		return nil
	}
	split, err := decode[wire.Split](key, value, func(r *wire.Split) error {
		return cmp.Or(meant("service", r.Service, service), meant("zone", r.Zone, zone))
	})
	if err != nil {
		return err
	}
	v.Shares[service] = split.Share
	return nil
}

func (v *View) readRatios(key string, values map[string]string, node string, services []string) error {
	value, ok := values[key]
	if !ok {
		return nil
	}
	r, err := decode[wire.Ratios](key, value, func(r *wire.Ratios) error { return meant("node", r.Node, node) })
	if err != nil {
		return err
	}
	for _, l := range services {
		if share, ok := r.Services[l]; ok {
			v.Shares[l] = share
		}
	}
	return nil
}

// Plan returns the optimizer's last plan, or nil when there is none.
func (s *Store) Plan(ctx context.Context) (*wire.Plan, error) { return read[wire.Plan](ctx, s, "plan") }

// Notices returns a channel that gets a value when the optimizer has published;
// several notices may fold into one. The channel is closed when ctx ends.
func (s *Store) Notices(ctx context.Context) <-chan struct{} { return s.listen(ctx, s.key("dispatch")) }

// SPDX-License-Identifier: Apache-2.0

package optimizer

import (
	"math"
	"time"

	"github.com/edgeweir/weir/internal/cluster"
	"github.com/edgeweir/weir/internal/wire"
	"github.com/edgeweir/weir/optimizer/model"
)

// resolution is the least change of a ratio that is worth a write: weights have
// a total of about 100.
const resolution = 0.001

// rows are splits by service and ratios by node, as agents read them.
type rows struct {
	splits map[string]wire.Share
	ratios map[string]map[string]wire.Share // by node and service
}

// rowsOf returns a decision's rows. Pods that get nothing are named with a ratio
// of 0: an agent must be able to tell them from pods that the optimizer does not
// know.
func rowsOf(d *model.DispatchDecision, c *cluster.Cluster) rows {
	r := rows{splits: map[string]wire.Share{}, ratios: map[string]map[string]wire.Share{}}
	pods := map[string][]string{}
	for _, s := range c.Services {
		for _, e := range s.Endpoints {
			pods[s.Name] = append(pods[s.Name], e.Pod)
		}
	}
	for _, ratio := range d.Ratios {
		share := wire.Share{Admitted: ratio.Admitted, Pods: map[string]float64{}}
		for _, pod := range pods[ratio.Service] {
			share.Pods[pod] = 0
		}
		for _, p := range ratio.Pods {
			share.Pods[p.Pod] = p.Ratio
		}
		if ratio.Node == "" {
			r.splits[ratio.Service] = share
			continue
		}
		if r.ratios[ratio.Node] == nil {
			r.ratios[ratio.Node] = map[string]wire.Share{}
		}
		r.ratios[ratio.Node][ratio.Service] = share
	}
	return r
}

// published remembers what was written, and when.
type published struct {
	splits map[string]written[wire.Share]
	ratios map[string]written[map[string]wire.Share]
}

type written[T any] struct {
	value T
	at    time.Time
}

func newPublished() *published {
	return &published{splits: map[string]written[wire.Share]{}, ratios: map[string]written[map[string]wire.Share]{}}
}

// due returns the rows of r that agents don't have: those that changed by more
// than the resolution, and those whose life is a third over. A node without
// ratios of its own any more gets empty ones.
func (p *published) due(r rows, now time.Time, life time.Duration) rows {
	old := now.Add(-life / 3)
	d := rows{splits: map[string]wire.Share{}, ratios: map[string]map[string]wire.Share{}}
	for service, share := range r.splits {
		if was, ok := p.splits[service]; !ok || was.at.Before(old) || differs(was.value, share) {
			d.splits[service] = share
		}
	}
	for node, services := range r.ratios {
		if was, ok := p.ratios[node]; !ok || was.at.Before(old) || anyDiffers(was.value, services) {
			d.ratios[node] = services
		}
	}
	for node, was := range p.ratios {
		if _, ok := r.ratios[node]; !ok && len(was.value) > 0 {
			d.ratios[node] = map[string]wire.Share{}
		}
	}
	return d
}

// wrote notes that d was written.
func (p *published) wrote(d rows, now time.Time) {
	for service, share := range d.splits {
		p.splits[service] = written[wire.Share]{share, now}
	}
	for node, services := range d.ratios {
		p.ratios[node] = written[map[string]wire.Share]{services, now}
	}
}

func anyDiffers(a, b map[string]wire.Share) bool {
	if len(a) != len(b) {
		return true
	}
	for service, share := range b {
		if was, ok := a[service]; !ok || differs(was, share) {
			return true
		}
	}
	return false
}

// differs compares ratios as agents enforce them, and what is admitted.
func differs(a, b wire.Share) bool {
	if len(a.Pods) != len(b.Pods) || math.Abs(a.Admitted-b.Admitted) > resolution {
		return true
	}
	for pod, y := range b.Pods {
		was, ok := a.Pods[pod]
		if !ok || math.Abs(was-y) > resolution || (was == 0) != (y == 0) {
			return true
		}
	}
	return false
}

// messages returns rows as messages of one period.
func (r rows) messages(epoch, period int64, at time.Time) ([]wire.Split, []wire.Ratios) {
	var splits []wire.Split
	for service, share := range r.splits {
		splits = append(splits, wire.Split{Version: wire.Version, Epoch: epoch, Period: period, At: at, Service: service, Share: share})
	}
	var ratios []wire.Ratios
	for node, services := range r.ratios {
		ratios = append(ratios, wire.Ratios{Version: wire.Version, Epoch: epoch, Period: period, At: at, Node: node, Services: services})
	}
	return splits, ratios
}

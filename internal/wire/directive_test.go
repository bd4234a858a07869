// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"strings"
	"testing"
	"time"
)

func exampleDirective() Directive {
	return Directive{Version: Version, Epoch: 3, At: epoch, Owner: "0c6f", Workload: "shop/Deployment/web", Slots: []Slot{
		{ID: "7-0", Node: "edge-2", Reason: ForMigration, Source: "edge-1", Deadline: epoch.Add(30 * time.Second)},
		{ID: "7-1", Node: "edge-3", Reason: ForScaling, Deadline: epoch.Add(20 * time.Second),
			Claim: &Claim{Version: Version, Pod: "9a1b", Name: "shop/web-x", At: epoch.Add(time.Second), State: Claimed}},
	}}
}

func TestDirectiveSurvivesARoundTrip(t *testing.T) {
	d := exampleDirective()
	roundTrip(t, &d)
	roundTrip(t, &Directive{Version: Version, Owner: "0c6f", Workload: "shop/Deployment/web"})
	if got := d.Deadline(); !got.Equal(epoch.Add(30 * time.Second)) {
		t.Errorf("the last deadline is %s", got)
	}
}

func TestBadDirectiveIsRefused(t *testing.T) {
	tests := []struct {
		name  string
		spoil func(*Directive)
		want  string
	}{
		{"owner", func(d *Directive) { d.Owner = "" }, "owner: "},
		{"owner with a blank", func(d *Directive) { d.Owner = "a b" }, "owner: "},
		{"long owner", func(d *Directive) { d.Owner = strings.Repeat("x", 65) }, "at most 64"},
		{"workload", func(d *Directive) { d.Workload = "" }, "workload: "},
		{"epoch", func(d *Directive) { d.Epoch = -1 }, "epoch: -1"},
		{"twice the same id", func(d *Directive) { d.Slots[1].ID = "7-0" }, "slots[1].id: "},
		{"no node", func(d *Directive) { d.Slots[0].Node = "" }, "slots[0].node: "},
		{"reason", func(d *Directive) { d.Slots[0].Reason = "whim" }, `slots[0].reason: "whim": migration or scaling`},
		{"back to the source", func(d *Directive) { d.Slots[0].Source = "edge-2" }, "slots[0].source: "},
		{"no deadline", func(d *Directive) { d.Slots[0].Deadline = time.Time{} }, "slots[0].deadline: "},
		{"deadline in two days", func(d *Directive) { d.Slots[0].Deadline = epoch.Add(48 * time.Hour) }, "slots[0].deadline: "},
		{"state", func(d *Directive) { d.Slots[1].Claim.State = "lost" }, "slots[1].claim.state: "},
		{"claim of nobody", func(d *Directive) { d.Slots[1].Claim.Pod = "" }, "slots[1].claim.pod: "},
		{"long why", func(d *Directive) { d.Slots[1].Claim.Why = strings.Repeat("x", 2000) }, "slots[1].claim.why: "},
		{"too many", func(d *Directive) { d.Slots = make([]Slot, 1001) }, "slots: 1001"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := exampleDirective()
			tt.spoil(&d)
			_, err := Encode(&d)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
		})
	}
}

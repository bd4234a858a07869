// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/edgeweir/weir/internal/wire"
)

// TestTwentyDirectivesLand moves twenty pods at 500 nodes, where a target is
// offered in 46% of the calls, once by each way to configure the scheduler.
func TestTwentyDirectivesLand(t *testing.T) {
	const moves, least, limit = 20, 19, 10 * time.Second
	w := newWorld(t)
	for example, scheduler := range map[string]string{"default.yaml": "", "second.yaml": "weir-scheduler"} {
		t.Run(example, func(t *testing.T) {
			defer w.schedule(t, example, w.config(t, example)).Stop()
			namespace := "twenty" + scheduler
			w.deploy(t, namespace, moves, scheduler)
			all := w.moves(t, namespace, 0, moves, limit, func(i int) string { return fmt.Sprint("edge-", 100+17*i) })
			w.settle(t, namespace, all, 2*limit)
			landed := 0
			for _, m := range all {
				if m.landed == m.slot.Node && m.took <= limit {
					landed++
				} else {
					t.Logf("%s: meant for %s, landed on %s after %s", m.app, m.slot.Node, m.landed, m.took)
				}
			}
			t.Logf("%d of %d landed on their target within %s", landed, moves, limit)
			if landed < least {
				t.Errorf("%d of %d landed within %s, want %d", landed, moves, limit, least)
			}
			w.await(t, "Redis says what became of each", func() bool {
				directives, err := w.store.Directives(t.Context())
				count := map[string]int{}
				for _, d := range directives {
					if !slices.ContainsFunc(all, func(m *move) bool { return m.owner == d.Owner }) {
						continue
					}
					if c := d.Slots[0].Claim; c != nil && (c.State == wire.Landed || c.State == wire.LetGo && c.Why != "") {
						count[c.State]++
					}
				}
				return err == nil && count[wire.Landed] >= landed && count[wire.Landed]+count[wire.LetGo] == moves
			})
		})
	}
}

// TestNominationFindsTheTarget moves single pods in a cluster where nothing else
// happens, so that nothing but the extender makes the scheduler try again.
func TestNominationFindsTheTarget(t *testing.T) {
	const moves, limit = 8, 2 * time.Second
	w := newWorld(t)
	w.schedule(t, "default", w.config(t, "default.yaml"))
	const namespace = "quiet"
	w.deploy(t, namespace, moves, "")
	for i := range moves {
		time.Sleep(time.Second)
		m := w.moves(t, namespace, i, i+1, 10*time.Second, func(i int) string { return fmt.Sprint("edge-", 90+31*i) })
		w.settle(t, namespace, m, 20*time.Second)
		if m[0].landed != m[0].slot.Node || m[0].took > limit {
			t.Errorf("%s: meant for %s, landed on %s after %s", m[0].app, m[0].slot.Node, m[0].landed, m[0].took)
		}
	}
}

// TestUnfitTargetIsLetGo cordons the target: the pod waits until the deadline,
// without driving the scheduler or the API server, and is told why.
func TestUnfitTargetIsLetGo(t *testing.T) {
	const target, limit = "edge-400", 5 * time.Second
	w := newWorld(t)
	w.schedule(t, "default", w.config(t, "default.yaml"))
	patch := []byte(`{"spec":{"unschedulable":true}}`)
	if _, err := w.client.CoreV1().Nodes().Patch(t.Context(), target, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	const namespace = "unfit"
	w.deploy(t, namespace, 1, "")
	m := w.moves(t, namespace, 0, 1, limit, func(int) string { return target })[0]
	w.settle(t, namespace, []*move{m}, 3*limit)
	if m.landed == "" || m.landed == target || m.landed == m.slot.Source || m.took > limit+2*time.Second {
		t.Errorf("meant for %s from %s, landed on %q after %s", target, m.slot.Source, m.landed, m.took)
	}
	w.await(t, "the claim says why", func() bool {
		directives, err := w.store.Directives(t.Context())
		return err == nil && len(directives) == 1 && directives[0].Slots[0].Claim != nil && directives[0].Slots[0].Claim.State == wire.LetGo
	})
	for _, p := range w.status(t).Pods {
		if p.Nominated > 6 {
			t.Errorf("%d nominations in %s", p.Nominated, limit)
		}
	}
	for _, p := range w.list(t, namespace, "app="+m.app) {
		for _, c := range p.Status.Conditions {
			if c.Type == "edgeweir.io/Placed" && c.Reason == "Unfit" {
				return
			}
		}
	}
	t.Error("no pod has the condition")
}

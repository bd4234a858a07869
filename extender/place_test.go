// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/edgeweir/weir/internal/testenv"
	"github.com/edgeweir/weir/internal/wire"
)

func TestPodsLandWhereTheirDirectiveSays(t *testing.T) {
	r := start(t, testenv.StartRedis(t))
	put(t, []wire.Directive{directive("web", 2, time.Minute)}, r)
	tests := []struct {
		name, owner, pod string
		offered, want    []string
		refused          string
	}{
		{"no controller", "", "lone", []string{"edge-0", "edge-1"}, []string{"edge-0", "edge-1"}, ""},
		{"no directive", "db", "db-1", []string{"edge-0", "edge-1"}, []string{"edge-0", "edge-1"}, ""},
		{"a slot whose target is offered comes first", "web", "web-1", []string{"edge-0", "edge-2"}, []string{"edge-2"}, "weir: meant for node edge-2"},
		{"asked again, the same", "web", "web-1", []string{"edge-0", "edge-1", "edge-2"}, []string{"edge-2"}, "weir: meant for node edge-2"},
		{"asked again without the target", "web", "web-1", []string{"edge-0", "edge-1"}, []string{}, "weir: waits for node edge-2, which was not offered"},
		{"target not offered", "web", "web-2", []string{"edge-0", "edge-3"}, []string{}, "weir: waits for node edge-1, which was not offered"},
		{"more pods than slots", "web", "web-3", []string{"edge-0", "edge-3"}, []string{"edge-0", "edge-3"}, ""},
		{"nothing offered", "web", "web-4", []string{}, []string{}, ""},
	}
	for _, tt := range tests {
		got, failed := r.ask(t, podOf(tt.owner, tt.pod), tt.offered...)
		if !slices.Equal(got, tt.want) || len(got)+len(failed) != len(tt.offered) {
			t.Errorf("%s: %v of %v are left, want %v; failed %v", tt.name, got, tt.offered, tt.want, failed)
		}
		for node, why := range failed {
			if why != tt.refused {
				t.Errorf("%s: %s is refused with %q, want %q", tt.name, node, why, tt.refused)
			}
		}
	}
	if got, want := r.claimsOf(t, "web"), map[string]string{"0": "web-2 claimed", "1": "web-1 claimed"}; !maps.Equal(got, want) {
		t.Errorf("claims %v, want %v", got, want)
	}
	for pod, node := range map[string]string{"web-1": "edge-2", "web-2": "edge-1"} {
		eventually(t, pod+" is nominated", func() bool { return r.api.seen(r.api.nominated, pod) == node })
	}
}

func TestPodIsLetGoAtItsDeadline(t *testing.T) {
	r := start(t, testenv.StartRedis(t))
	put(t, []wire.Directive{directive("web", 1, 400*time.Millisecond), directive("nobody", 1, 400*time.Millisecond)}, r)
	pod := podOf("web", "web-1")
	if got, _ := r.ask(t, pod, "edge-0", "edge-3"); len(got) != 0 {
		t.Fatalf("before the deadline %v are left", got)
	}
	eventually(t, "the pod is told", func() bool { return r.api.seen(r.api.explained, "web-1") == whyNotOffered })
	eventually(t, "slots are let go in Redis", func() bool {
		return r.claimsOf(t, "web")["0"] == "web-1 let-go" && r.claimsOf(t, "nobody")["0"] == "let-go"
	})
	if got, failed := r.ask(t, pod, "edge-0", "edge-3"); !slices.Equal(got, []string{"edge-3"}) || failed["edge-0"] == "" {
		t.Errorf("after the deadline %v are left, refused %v", got, failed)
	}
	if got, _ := r.ask(t, pod, "edge-0"); !slices.Equal(got, []string{"edge-0"}) {
		t.Errorf("where only the source is offered, %v are left", got)
	}
	if got, _ := r.ask(t, podOf("nobody", "late"), "edge-0", "edge-3"); len(got) != 2 {
		t.Errorf("a pod that came too late may go to %v", got)
	}
}

func TestReasonTellsUnfitFromNotOffered(t *testing.T) {
	r := start(t, testenv.StartRedis(t))
	put(t, []wire.Directive{directive("a", 1, 500*time.Millisecond), directive("b", 1, 500*time.Millisecond)}, r)
	tried := podOf("a", "a-1")
	tried.Status.NominatedNodeName = "edge-1"
	r.ask(t, tried, "edge-0", "edge-3")
	r.ask(t, podOf("b", "b-1"), "edge-0", "edge-3")
	eventually(t, "both are let go", func() bool {
		return r.api.seen(r.api.explained, "a-1") == whyUnfit && r.api.seen(r.api.explained, "b-1") == whyNotOffered
	})
}

func TestSlotOfAPodThatDidNotLandIsFreeAgain(t *testing.T) {
	r := start(t, testenv.StartRedis(t))
	put(t, []wire.Directive{directive("web", 1, time.Minute)}, r)
	for i, node := range []string{"", "edge-7", "edge-1"} { // vanished, elsewhere, landed
		pod := string(rune('a' + i))
		var got []string
		eventually(t, "the slot goes to "+pod, func() bool {
			got, _ = r.ask(t, podOf("web", pod), "edge-0", "edge-1")
			return len(got) == 1
		})
		if !slices.Equal(got, []string{"edge-1"}) {
			t.Fatalf("%s may go to %v", pod, got)
		}
		r.api.channel(pod) <- node
	}
	eventually(t, "the last one landed", func() bool { return r.claimsOf(t, "web")["0"] == "c landed" })
	if got, _ := r.ask(t, podOf("web", "d"), "edge-0", "edge-1"); len(got) != 2 {
		t.Errorf("after the landing a further pod may go to %v only", got)
	}
}

func TestWithdrawnDirectiveLetsItsPodGo(t *testing.T) {
	r := start(t, testenv.StartRedis(t))
	put(t, []wire.Directive{directive("web", 1, time.Minute)}, r)
	if got, _ := r.ask(t, podOf("web", "web-1"), "edge-3"); len(got) != 0 {
		t.Fatalf("%v are left", got)
	}
	eventually(t, "the claim is in the book", func() bool { return r.book.Load().owners["web"].Slots[0].Claim != nil })
	put(t, []wire.Directive{directive("web", 0, 0)}, r)
	eventually(t, "the pod is told", func() bool { return r.api.seen(r.api.explained, "web-1") == whyWithdrawn })
	if got, _ := r.ask(t, podOf("web", "web-1"), "edge-3"); len(got) != 1 {
		t.Errorf("afterwards %v are left", got)
	}
}

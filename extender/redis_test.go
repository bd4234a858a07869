// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/edgeweir/weir/internal/testenv"
	"github.com/edgeweir/weir/internal/wire"
)

func TestHangingRedisHoldsOnlyWhatCarriesADirective(t *testing.T) {
	address := testenv.StartRedis(t)
	r := start(t, address, func(c *Config) { c.ClaimWait = 3 * time.Millisecond })
	put(t, []wire.Directive{directive("web", 2, time.Minute)}, r)
	resume := suspend(t, address)
	slowest := time.Duration(0)
	for i := range 50 {
		before := time.Now()
		if got, _ := r.ask(t, podOf("db", fmt.Sprint("db-", i)), "edge-0", "edge-1"); len(got) != 2 {
			t.Fatalf("a pod without a directive may go to %v only", got)
		}
		slowest = max(slowest, time.Since(before))
	}
	if slowest > 50*time.Millisecond {
		t.Errorf("a pod without a directive was held up for %s", slowest)
	}
	got, failed := r.ask(t, podOf("web", "web-1"), "edge-0", "edge-1")
	if len(got) != 0 || failed["edge-1"] != "weir: waits for Redis to grant the place of its directive" {
		t.Errorf("a pod with a directive may go to %v, refused %v", got, failed)
	}
	eventually(t, "it is tried again after the hold", func() bool { return r.api.seen(r.api.explained, "web-1") == whyRedis })
	if got, _ := r.ask(t, podOf("web", "web-1"), "edge-0", "edge-3"); !slices.Equal(got, []string{"edge-3"}) {
		t.Errorf("after the hold it may go to %v", got)
	}
	// A claim that was late is there when Redis is back, and wakes its pod.
	if got, _ := r.ask(t, podOf("web", "web-2"), "edge-0", "edge-3"); len(got) != 0 {
		t.Errorf("a second pod with a directive may go to %v", got)
	}
	resume()
	eventually(t, "the pod whose claim was late is nominated", func() bool { return r.api.seen(r.api.nominated, "web-2") != "" })
	if got, _ := r.ask(t, podOf("web", "web-2"), "edge-0", "edge-1", "edge-2"); len(got) != 1 || got[0] == "edge-0" {
		t.Errorf("it may go to %v", got)
	}
}

func TestTwoReplicasGiveEachSlotToOnePod(t *testing.T) {
	const slots, pods = 8, 12
	address := testenv.StartRedis(t)
	replicas := []*replica{start(t, address), start(t, address)}
	put(t, []wire.Directive{directive("web", slots, time.Minute)}, replicas...)
	nodes := []string{"edge-0"}
	for i := range slots {
		nodes = append(nodes, fmt.Sprintf("edge-%d", i+1))
	}
	var mu sync.Mutex
	got := map[string][]string{} // pod → the distinct answers
	var all sync.WaitGroup
	for i := range pods {
		for _, r := range replicas {
			all.Go(func() {
				name := fmt.Sprint("web-", i)
				for range 4 {
					left, _ := r.ask(t, podOf("web", name), nodes...)
					for len(left) == 0 { // Redis was slow: the scheduler would ask again
						left, _ = r.ask(t, podOf("web", name), nodes...)
					}
					mu.Lock()
					if a := fmt.Sprint(left); !slices.Contains(got[name], a) {
						got[name] = append(got[name], a)
					}
					mu.Unlock()
				}
			})
		}
	}
	all.Wait()
	holder := map[string]string{}
	for pod, answers := range got {
		if len(answers) != 1 {
			t.Errorf("%s was answered %v", pod, answers)
		}
		if answers[0] == fmt.Sprint(nodes) {
			continue // it found no slot
		}
		if other := holder[answers[0]]; other != "" {
			t.Errorf("%s and %s were both sent to %s", pod, other, answers[0])
		}
		holder[answers[0]] = pod
	}
	if len(holder) != slots {
		t.Errorf("%d of %d slots were taken", len(holder), slots)
	}
	// Each replica learns of the other's claims, and one lets them land.
	for _, r := range replicas {
		eventually(t, "both know all pods", func() bool { return len(r.desk.list()) == slots })
	}
}

func TestRefreshSurvivesARestartOfRedis(t *testing.T) {
	testenv.Require(t, testenv.Redis)
	address := testenv.FreeAddress(t)
	stop := testenv.RunRedis(t, address)
	r := start(t, address)
	put(t, []wire.Directive{directive("web", 1, time.Minute)}, r)
	if got, _ := r.ask(t, podOf("web", "early"), "edge-0"); len(got) != 0 {
		t.Errorf("before the restart %v are left", got)
	}
	stop()
	time.Sleep(200 * time.Millisecond)
	if r.book.Load().owners["web"] == nil {
		t.Error("the copy of the directives went with Redis")
	}
	testenv.RunRedis(t, address) // it is empty now
	eventually(t, "the loss is seen", func() bool { return len(r.book.Load().owners) == 0 })
	eventually(t, "the pod that waited is tried again", func() bool { return r.api.seen(r.api.explained, "early") == whyWithdrawn })
	put(t, []wire.Directive{directive("web", 1, time.Minute)}, r)
	if got, _ := r.ask(t, podOf("web", "web-1"), "edge-0", "edge-1"); !slices.Equal(got, []string{"edge-1"}) {
		t.Errorf("after the restart %v are left", got)
	}
}

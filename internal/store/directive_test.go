// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/edgeweir/weir/internal/testenv"
	"github.com/edgeweir/weir/internal/wire"
)

func directive(owner string, slots ...string) wire.Directive {
	d := wire.Directive{Version: wire.Version, Epoch: 1, At: time.Now().UTC(), Owner: owner, Workload: "shop/Deployment/web"}
	for _, id := range slots {
		d.Slots = append(d.Slots, wire.Slot{ID: id, Node: "edge-" + id, Reason: wire.ForMigration, Source: "edge-source", Deadline: d.At.Add(time.Minute)})
	}
	return d
}

func claimOf(pod string) wire.Claim {
	return wire.Claim{Version: wire.Version, Pod: pod, Name: "shop/" + pod, At: time.Now().UTC(), State: wire.Claimed}
}

func put(t testing.TB, s *Store, epoch int64, ds ...wire.Directive) {
	t.Helper()
	if _, err := s.PutDirectives(t.Context(), epoch, ds); err != nil {
		t.Fatal(err)
	}
}

// states returns slot → "pod state" of all directives, "" for a free slot.
func states(t testing.TB, s *Store) map[string]string {
	t.Helper()
	ds, err := s.Directives(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, d := range ds {
		for _, slot := range d.Slots {
			got[d.Owner+"/"+slot.ID] = ""
			if c := slot.Claim; c != nil {
				got[d.Owner+"/"+slot.ID] = strings.TrimSpace(c.Pod + " " + c.State)
			}
		}
	}
	return got
}

func TestDirectivesAreReadWithTheirClaims(t *testing.T) {
	address := testenv.StartRedis(t)
	s, ctx := open(t, address), t.Context()
	put(t, s, 1, directive("o1", "a", "b"), directive("o2", "a"))
	if slot, err := s.Claim(ctx, "o1", []string{"b", "a"}, claimOf("p1")); err != nil || slot != "b" {
		t.Fatalf("claimed %q, %v", slot, err)
	}
	if want, got := map[string]string{"o1/a": "", "o1/b": "p1 claimed", "o2/a": ""}, states(t, s); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	// What is not a directive does not hide the others.
	raw := redis.NewClient(&redis.Options{Addr: address})
	defer raw.Close()
	raw.Set(ctx, "weir:{lab}:directive:o2", "garbage", 0)
	raw.HSet(ctx, "weir:{lab}:directive:o1:claims", "a", "garbage")
	ds, err := s.Directives(ctx)
	if len(ds) != 1 || ds[0].Owner != "o1" || ds[0].Slots[1].Claim == nil {
		t.Errorf("got %+v", ds)
	}
	for _, want := range []string{"redis key weir:{lab}:directive:o2: not JSON", "redis key weir:{lab}:directive:o1:claims a: not JSON"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}

func TestOldLeaderWritesNoDirectives(t *testing.T) {
	s, ctx := open(t, testenv.StartRedis(t)), t.Context()
	put(t, s, 2, directive("o1", "a"))
	if _, err := s.PutDirectives(ctx, 1, []wire.Directive{directive("o1", "z")}); !errors.Is(err, ErrFenced) {
		t.Errorf("the old leader's write gave %v", err)
	}
	if got := states(t, s); !maps.Equal(got, map[string]string{"o1/a": ""}) {
		t.Errorf("got %v", got)
	}
}

func TestRewrittenDirectiveKeepsClaimsOfSlotsThatStay(t *testing.T) {
	s, ctx := open(t, testenv.StartRedis(t)), t.Context()
	put(t, s, 1, directive("o1", "a", "b"))
	for _, pod := range []string{"p1", "p2"} {
		if _, err := s.Claim(ctx, "o1", []string{"a", "b"}, claimOf(pod)); err != nil {
			t.Fatal(err)
		}
	}
	put(t, s, 1, directive("o1", "b", "c"))
	if want, got := map[string]string{"o1/b": "p2 claimed", "o1/c": ""}, states(t, s); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	// The extender's copy may be old: a withdrawn slot can't be claimed.
	if slot, err := s.Claim(ctx, "o1", []string{"a", "c"}, claimOf("p1")); err != nil || slot != "c" {
		t.Errorf("claimed %q, %v", slot, err)
	}
	put(t, s, 1, directive("o1"))
	if slot, err := s.Claim(ctx, "o1", []string{"a", "b", "c"}, claimOf("p3")); !errors.Is(err, ErrNoSlot) {
		t.Errorf("a withdrawn directive gave %q, %v", slot, err)
	}
	if _, err := s.Claim(ctx, "none", []string{"a"}, claimOf("p3")); !errors.Is(err, ErrNoSlot) {
		t.Errorf("no directive gave %v", err)
	}
}

func TestDirectivesEndWithTheirDeadline(t *testing.T) {
	address := testenv.StartRedis(t)
	s, ctx := open(t, address), t.Context()
	d := directive("o1", "a")
	put(t, s, 1, d)
	if _, err := s.Claim(ctx, "o1", []string{"a"}, claimOf("p1")); err != nil {
		t.Fatal(err)
	}
	d.Slots[0].Deadline = d.At.Add(10 * time.Minute)
	put(t, s, 1, d)
	raw := redis.NewClient(&redis.Options{Addr: address})
	defer raw.Close()
	life, claims := raw.PTTL(ctx, "weir:{lab}:directive:o1").Val(), raw.PTTL(ctx, "weir:{lab}:directive:o1:claims").Val()
	if low := 10*time.Minute + Linger - 5*time.Second; life < low || life > low+6*time.Second || claims < life-time.Second {
		t.Errorf("the directive lives for %s, its claims for %s", life, claims)
	}
	raw.PExpire(ctx, "weir:{lab}:directive:o1", time.Millisecond)
	time.Sleep(10 * time.Millisecond)
	if got := states(t, s); len(got) != 0 {
		t.Errorf("after its life: %v", got)
	}
	if ok, err := s.Settle(ctx, "o1", "a", wire.Claim{Version: wire.Version, At: start, State: wire.LetGo}); ok || err != nil {
		t.Errorf("a slot of an ended directive was settled: %v, %v", ok, err)
	}
}

// TestClaimsFollowTheModel runs random calls against what they should do.
func TestClaimsFollowTheModel(t *testing.T) {
	const owner = "o1"
	address := testenv.StartRedis(t)
	s, ctx := open(t, address), t.Context()
	raw := redis.NewClient(&redis.Options{Addr: address})
	defer raw.Close()
	rapid.Check(t, func(rt *rapid.T) {
		raw.FlushAll(ctx)
		ids := []string{"a", "b", "c"}
		put(t, s, 1, directive(owner, ids...))
		type held struct{ pod, state string }
		model := map[string]held{}
		of := func(pod string) string {
			for id, h := range model {
				if h.pod == pod && pod != "" {
					return id
				}
			}
			return ""
		}
		pods := rapid.SampledFrom([]string{"p1", "p2", "p3", "p4"})
		slots := rapid.SampledFrom(ids)
		rt.Repeat(map[string]func(*rapid.T){
			"claim": func(rt *rapid.T) {
				pod, order := pods.Draw(rt, "pod"), rapid.Permutation(ids).Draw(rt, "order")
				want := of(pod)
				for i := 0; want == "" && i < len(order); i++ {
					if _, taken := model[order[i]]; !taken {
						want = order[i]
						model[want] = held{pod, wire.Claimed}
					}
				}
				got, err := s.Claim(ctx, owner, order, claimOf(pod))
				if got != want || (err != nil) != (want == "") || err != nil && !errors.Is(err, ErrNoSlot) {
					rt.Fatalf("%s claims %q, %v; want %q", pod, got, err, want)
				}
			},
			"release": func(rt *rapid.T) {
				pod, id := pods.Draw(rt, "pod"), slots.Draw(rt, "slot")
				want := model[id] == held{pod, wire.Claimed}
				if want {
					delete(model, id)
				}
				if got, err := s.Release(ctx, owner, id, pod); err != nil || got != want {
					rt.Fatalf("%s releases %s: %v, %v; want %v", pod, id, got, err, want)
				}
			},
			"settle": func(rt *rapid.T) {
				pod, id := pods.Draw(rt, "pod"), slots.Draw(rt, "slot")
				c := claimOf(pod)
				c.State = rapid.SampledFrom([]string{wire.Landed, wire.LetGo}).Draw(rt, "state")
				want := model[id] == held{pod, wire.Claimed}
				if want {
					model[id] = held{pod, c.State}
				}
				if got, err := s.Settle(ctx, owner, id, c); err != nil || got != want {
					rt.Fatalf("%s settles %s: %v, %v; want %v", pod, id, got, err, want)
				}
			},
			"let go unclaimed": func(rt *rapid.T) {
				id := slots.Draw(rt, "slot")
				_, taken := model[id]
				if !taken {
					model[id] = held{"", wire.LetGo}
				}
				got, err := s.Settle(ctx, owner, id, wire.Claim{Version: wire.Version, At: start, State: wire.LetGo, Why: "no pod came"})
				if err != nil || got == taken {
					rt.Fatalf("%s let go: %v, %v; it was taken: %v", id, got, err, taken)
				}
			},
			"": func(rt *rapid.T) {
				all := states(t, s)
				for _, id := range ids {
					want := strings.TrimSpace(model[id].pod + " " + model[id].state)
					if got := all[owner+"/"+id]; got != want {
						rt.Fatalf("slot %s is %q, want %q", id, got, want)
					}
				}
			},
		})
	})
}

// TestTwoReplicasNeverShareASlot lets two extenders claim for the same pods at
// the same time, while slots are released and rewritten.
func TestTwoReplicasNeverShareASlot(t *testing.T) {
	const slots, pods = 12, 20
	address := testenv.StartRedis(t)
	replicas := []*Store{open(t, address), open(t, address)}
	var ids []string
	for i := range slots {
		ids = append(ids, fmt.Sprint(i))
	}
	put(t, replicas[0], 1, directive("o1", ids...))
	var mu sync.Mutex
	got := map[string][]string{} // pod → the slots that it was told
	var all sync.WaitGroup
	for i := range pods {
		for r, s := range replicas {
			all.Go(func() {
				order := slices.Clone(ids)
				if r == 1 {
					slices.Reverse(order)
				}
				pod := fmt.Sprintf("p%d", i)
				for range 5 {
					slot, err := s.Claim(t.Context(), "o1", order, claimOf(pod))
					if err != nil && !errors.Is(err, ErrNoSlot) {
						t.Error(err)
						return
					}
					mu.Lock()
					got[pod] = append(got[pod], slot)
					mu.Unlock()
				}
			})
		}
	}
	all.Wait()
	holder := map[string]string{}
	for pod, told := range got {
		slices.Sort(told)
		if told = slices.Compact(told); len(told) != 1 {
			t.Errorf("%s was told %q", pod, told)
		}
		if slot := told[0]; slot != "" {
			if other := holder[slot]; other != "" {
				t.Errorf("slot %s is held by %s and %s", slot, other, pod)
			}
			holder[slot] = pod
		}
	}
	if len(holder) != slots {
		t.Errorf("%d of %d slots are held", len(holder), slots)
	}
	for key, state := range states(t, replicas[1]) {
		if want := holder[strings.TrimPrefix(key, "o1/")] + " claimed"; state != want {
			t.Errorf("%s is %q, want %q", key, state, want)
		}
	}
}

func TestDirectiveNoticesTellOfWritesAndReleases(t *testing.T) {
	s := open(t, testenv.StartRedis(t))
	notices := s.DirectiveNotices(t.Context())
	heard := int64(0)
	for range 100 { // the subscription takes a moment
		h, err := s.PutDirectives(t.Context(), 1, []wire.Directive{directive("o1", "a")})
		if err != nil {
			t.Fatal(err)
		}
		if heard = h; heard > 0 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if heard != 1 {
		t.Fatalf("%d heard of the directive", heard)
	}
	await(t, notices)
	if _, err := s.Claim(t.Context(), "o1", []string{"a"}, claimOf("p1")); err != nil {
		t.Fatal(err)
	}
	if ok, err := s.Release(t.Context(), "o1", "a", "p1"); !ok || err != nil {
		t.Fatal(ok, err)
	}
	await(t, notices)
}

// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/edgeweir/weir/internal/testenv"
	"github.com/edgeweir/weir/internal/wire"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func open(t *testing.T, address string) *Store {
	t.Helper()
	s, err := Open("lab", Options{Addresses: []string{address}, Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func arrivals(node string, total uint64) *wire.Arrivals {
	return &wire.Arrivals{Version: wire.Version, Node: node, Counters: "b/1", Start: start, End: start.Add(time.Second),
		Services: map[string]wire.ServiceArrivals{"web": {Tasks: 1, Total: total}}}
}

func share(pod string) wire.Share {
	return wire.Share{Admitted: 1, Pods: map[string]float64{pod: 1}}
}

func split(service, zone, pod string) wire.Split {
	return wire.Split{Version: wire.Version, Service: service, Zone: zone, Share: share(pod)}
}

func dispatch(epoch, period int64) *Dispatch {
	return &Dispatch{Epoch: epoch, Period: period, Life: time.Minute,
		Splits: []wire.Split{split("web", "", "all"), split("web", "a", "zone"), split("dns", "", "all")},
		Ratios: []wire.Ratios{{Version: wire.Version, Node: "n1", Services: map[string]wire.Share{"dns": share("own")}}},
		Plan:   wire.Plan{Version: wire.Version, Epoch: epoch, Period: period, At: start, Seconds: 5}}
}

func TestArrivalsOfOneNodeDontSpoilTheOthers(t *testing.T) {
	address := testenv.StartRedis(t)
	s, ctx := open(t, address), t.Context()
	for _, n := range []string{"n1", "n2"} {
		if err := s.PutArrivals(ctx, arrivals(n, 5), time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	raw := redis.NewClient(&redis.Options{Addr: address})
	defer raw.Close()
	for key, value := range map[string]string{"arrivals:n3": `{"version": 9}`, "arrivals:n4": "garbage", "arrivals:n5": raw.Get(ctx, "weir:{lab}:arrivals:n1").Val()} {
		if err := raw.Set(ctx, "weir:{lab}:"+key, value, 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	got, err := s.Arrivals(ctx, []string{"n1", "n2", "n3", "n4", "n5", "silent"})
	if len(got) != 2 || got["n2"].Services["web"].Total != 5 {
		t.Errorf("got %+v", got)
	}
	for _, want := range []string{
		"redis key weir:{lab}:arrivals:n3: version: 9: this build reads 1 to 2",
		"redis key weir:{lab}:arrivals:n4: not JSON",
		`redis key weir:{lab}:arrivals:n5: node: "n1": "n5"`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}

func TestNarrowestSplitHolds(t *testing.T) {
	s, ctx := open(t, testenv.StartRedis(t)), t.Context()
	empty, err := s.View(ctx, "n1", "a", []string{"web"})
	if err != nil || empty.Pulse != nil || len(empty.Shares) != 0 {
		t.Errorf("empty Redis gives %+v, %v", empty, err)
	}
	if err := s.PutDispatch(ctx, dispatch(1, 7)); err != nil {
		t.Fatal(err)
	}
	tests := []struct{ node, zone, web, dns string }{
		{"n1", "a", "zone", "own"}, {"n2", "a", "zone", "all"}, {"n3", "b", "all", "all"}, {"n4", "", "all", "all"},
	}
	for _, tt := range tests {
		v, err := s.View(ctx, tt.node, tt.zone, []string{"web", "dns", "unknown"})
		if err != nil {
			t.Fatal(err)
		}
		if v.Pulse == nil || v.Pulse.Period != 7 {
			t.Errorf("%s: pulse %+v", tt.node, v.Pulse)
		}
		if v.Shares["web"].Pods[tt.web] != 1 || v.Shares["dns"].Pods[tt.dns] != 1 || len(v.Shares) != 2 {
			t.Errorf("%s in zone %q sees %+v, want %s and %s", tt.node, tt.zone, v.Shares, tt.web, tt.dns)
		}
	}
	if p, err := s.Plan(ctx); err != nil || p == nil || p.Period != 7 {
		t.Errorf("plan %+v, %v", p, err)
	}
}

func TestOldLeaderIsRefused(t *testing.T) {
	address := testenv.StartRedis(t)
	s, ctx := open(t, address), t.Context()
	first, err := s.NextEpoch(ctx)
	if err != nil {
		t.Fatal(err)
	}
	second, err := s.NextEpoch(ctx)
	if err != nil || second <= first {
		t.Fatalf("epochs %d, %d, %v", first, second, err)
	}
	if err := s.PutDispatch(ctx, dispatch(second, 8)); err != nil {
		t.Fatal(err)
	}
	if err := s.PutDispatch(ctx, dispatch(first, 9)); !errors.Is(err, ErrFenced) {
		t.Fatalf("a write of the old leader gave %v", err)
	}
	if p, err := s.Plan(ctx); err != nil || p.Period != 8 {
		t.Errorf("plan %+v, %v: the old leader wrote", p, err)
	}
	// Garbage in the epoch's key must not lock everyone out.
	raw := redis.NewClient(&redis.Options{Addr: address})
	defer raw.Close()
	raw.Set(ctx, "weir:{lab}:epoch", "garbage", 0)
	if err := s.PutDispatch(ctx, dispatch(second, 10)); err != nil {
		t.Errorf("with garbage in the epoch: %v", err)
	}
	raw.Set(ctx, "weir:{lab}:epoch", "garbage", 0)
	if _, err := s.NextEpoch(ctx); err != nil {
		t.Errorf("with garbage in the epoch: %v", err)
	}
}

func TestBadRowIsNotPublishedInPart(t *testing.T) {
	s, ctx := open(t, testenv.StartRedis(t)), t.Context()
	d := dispatch(1, 7)
	d.Ratios[0].Services["dns"] = wire.Share{Admitted: 1, Pods: map[string]float64{"own": 0.2}}
	err := s.PutDispatch(ctx, d)
	if err == nil || !strings.Contains(err.Error(), "redis key weir:{lab}:ratios:n1: ") || !strings.Contains(err.Error(), "services.dns.pods: 0.2") {
		t.Errorf("error %v", err)
	}
	if v, err := s.View(ctx, "n3", "", []string{"web"}); err != nil || len(v.Shares) != 0 {
		t.Errorf("a part was published: %+v, %v", v, err)
	}
}

func TestRowsEndWithTheirLife(t *testing.T) {
	s, ctx := open(t, testenv.StartRedis(t)), t.Context()
	d := dispatch(1, 7)
	d.Life = 50 * time.Millisecond
	if err := s.PutDispatch(ctx, d); err != nil {
		t.Fatal(err)
	}
	time.Sleep(100 * time.Millisecond)
	v, err := s.View(ctx, "n1", "a", []string{"web"})
	if err != nil || v.Pulse != nil || len(v.Shares) != 0 {
		t.Errorf("after its life: %+v, %v", v, err)
	}
	if p, err := s.Plan(ctx); err != nil || p == nil {
		t.Errorf("the plan has no end, got %v, %v", p, err)
	}
}

func TestNoticesComeBackAfterARestart(t *testing.T) {
	testenv.Require(t, testenv.Redis)
	address := testenv.FreeAddress(t)
	stop := testenv.RunRedis(t, address)
	s := open(t, address)
	ctx, cancel := context.WithCancel(t.Context())
	notices := s.Notices(ctx)
	published := make(chan struct{})
	go func() {
		defer close(published)
		for period := int64(1); ctx.Err() == nil; period++ {
			// It fails while Redis is down, which is what is tested.
			_ = s.PutDispatch(ctx, dispatch(1, period))
			time.Sleep(20 * time.Millisecond)
		}
	}()
	await(t, notices)
	stop()
	select { // one may have waited from before
	case <-notices:
	default:
	}
	testenv.RunRedis(t, address)
	await(t, notices)
	cancel()
	<-published
	for range notices { // must be closed once ctx has ended
	}
}

func await(t *testing.T, notices <-chan struct{}) {
	t.Helper()
	select {
	case <-notices:
	case <-time.After(15 * time.Second):
		t.Error("no notice in 15 s")
	}
}

func TestCallsEndWithTheirContext(t *testing.T) {
	address := testenv.StartRedis(t)
	s := open(t, address)
	raw := redis.NewClient(&redis.Options{Addr: address})
	defer raw.Close()
	if err := s.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := raw.Do(t.Context(), "CLIENT", "PAUSE", "1000", "ALL").Err(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	before := time.Now()
	if _, err := s.Plan(ctx); err == nil {
		t.Error("a hanging Redis gave no error")
	}
	if took := time.Since(before); took > 500*time.Millisecond {
		t.Errorf("a call with 50 ms took %s", took)
	}
}

func TestOptionsNameTheirFlag(t *testing.T) {
	dir := t.TempDir()
	notPEM := filepath.Join(dir, "ca.pem")
	if err := os.WriteFile(notPEM, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		options Options
		want    string
	}{
		{Options{Timeout: 1}, "--redis: none"},
		{Options{Addresses: []string{"redis"}, Timeout: 1}, `--redis: "redis": host:port`},
		{Options{Addresses: []string{"a:1"}}, "--redis-timeout: 0s"},
		{Options{Addresses: []string{"a:1"}, Timeout: 1, PasswordFile: dir + "/none"}, "--redis-password-file: "},
		{Options{Addresses: []string{"a:1"}, Timeout: 1, CA: notPEM}, "no PEM certificate"},
		{Options{Addresses: []string{"a:1"}, Timeout: 1, Cert: "c"}, "--redis-ca"},
	}
	for _, tt := range tests {
		_, err := Open("lab", tt.options)
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%+v: error %v, want one with %q", tt.options, err, tt.want)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/edgeweir/weir/internal/testenv"
	"github.com/edgeweir/weir/internal/wire"
)

func TestOrders(t *testing.T) {
	address := testenv.StartRedis(t)
	s, ctx := open(t, address), t.Context()
	if o, err := s.Orders(ctx); err != nil || o.Frozen != nil || o.Asked {
		t.Errorf("orders of nobody: %+v, %v", o, err)
	}
	if err := s.Freeze(ctx, &wire.Freeze{Version: wire.Version, At: time.Now(), By: "me", Why: "a test"}); err != nil {
		t.Fatal(err)
	}
	if err := s.Ask(ctx, time.Minute); err != nil {
		t.Fatal(err)
	}
	if o, err := s.Orders(ctx); err != nil || o.Frozen == nil || o.Frozen.By != "me" || !o.Asked {
		t.Errorf("orders %+v, %v", o, err)
	}
	raw := redis.NewClient(&redis.Options{Addr: address})
	defer raw.Close()
	if err := raw.Set(ctx, "weir:{lab}:freeze", "garbage", 0).Err(); err != nil {
		t.Fatal(err)
	}
	var key *KeyError
	if o, err := s.Orders(ctx); !errors.As(err, &key) || o.Frozen == nil {
		t.Errorf("a freeze that can't be read: %+v, %v", o, err)
	}
	for _, want := range []bool{true, false} {
		if was, err := s.Unfreeze(ctx); err != nil || was != want {
			t.Errorf("unfreeze %v, %v, want %v", was, err, want)
		}
	}
}

func TestClaimEpoch(t *testing.T) {
	s, ctx := open(t, testenv.StartRedis(t)), t.Context()
	if _, err := s.ClaimEpoch(ctx, 0); !errors.Is(err, ErrFenced) {
		t.Errorf("epoch 0 is no one's: %v", err)
	}
	if _, err := s.ClaimEpoch(ctx, 5); err != nil {
		t.Fatal(err)
	}
	for _, epoch := range []int64{4, 5} {
		if held, err := s.ClaimEpoch(ctx, epoch); !errors.Is(err, ErrFenced) || held != 5 {
			t.Errorf("claim of %d after 5: held %d, %v", epoch, held, err)
		}
	}
	if err := s.PutDispatch(ctx, dispatch(4, 1)); !errors.Is(err, ErrFenced) {
		t.Errorf("a write of epoch 4: %v", err)
	}
	if err := s.PutDispatch(ctx, dispatch(5, 1)); err != nil {
		t.Errorf("a write of epoch 5: %v", err)
	}
}

func TestKeepProlongsRowsAsTheyAre(t *testing.T) {
	s, ctx := open(t, testenv.StartRedis(t)), t.Context()
	d := dispatch(2, 1)
	d.Life = 300 * time.Millisecond
	if err := s.PutDispatch(ctx, d); err != nil {
		t.Fatal(err)
	}
	before, err := s.View(ctx, "n1", "a", []string{"web"})
	if err != nil {
		t.Fatal(err)
	}
	kept := &Dispatch{Epoch: 2, Period: 2, Life: time.Minute, Plan: d.Plan, KeepServices: []string{"web", "none"}, KeepNodes: []string{"n1"}}
	if err := s.PutDispatch(ctx, kept); err != nil {
		t.Fatal(err)
	}
	time.Sleep(400 * time.Millisecond)
	after, err := s.View(ctx, "n1", "", []string{"web", "none"})
	if err != nil || len(after.Shares) != 1 || after.Shares["web"].Admitted != before.Shares["web"].Admitted {
		t.Errorf("%+v became %+v, %v", before.Shares, after.Shares, err)
	}
	kept.Epoch = 1
	if err := s.PutDispatch(ctx, kept); !errors.Is(err, ErrFenced) {
		t.Errorf("an older leader keeps rows: %v", err)
	}
}

func TestStateIsReadAsWritten(t *testing.T) {
	s, ctx := open(t, testenv.StartRedis(t)), t.Context()
	if got, err := s.State(ctx); err != nil || got != nil {
		t.Errorf("state of nobody: %+v, %v", got, err)
	}
	d := dispatch(1, 1)
	d.State = &wire.State{Version: wire.Version, Epoch: 1, Period: 1, Seconds: 5, Pods: []wire.PodState{{Name: "a", Node: "n1"}}}
	if err := s.PutDispatch(ctx, d); err != nil {
		t.Fatal(err)
	}
	if got, err := s.State(ctx); err != nil || got == nil || len(got.Pods) != 1 || got.Pods[0].Node != "n1" {
		t.Errorf("state %+v, %v", got, err)
	}
}

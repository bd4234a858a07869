// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/edgeweir/weir/internal/wire"
)

// ErrFenced says that a leader of a later epoch has written.
var ErrFenced = errors.New("a later leader has taken over")

// fence writes KEYS[2…] unless KEYS[1], the epoch, is later than ARGV[1]. Each
// key has two arguments: its value, and its life in ms (0: no end).
var fence = redis.NewScript(`
local held = tonumber(redis.call('GET', KEYS[1]) or '0') or 0
if tonumber(ARGV[1]) < held then
  return redis.error_reply('FENCED by epoch ' .. held)
end
redis.call('SET', KEYS[1], ARGV[1])
for i = 2, #KEYS do
  local value, life = ARGV[2 * i - 2], ARGV[2 * i - 1]
  if life == '0' then
    redis.call('SET', KEYS[i], value)
  else
    redis.call('SET', KEYS[i], value, 'PX', life)
  end
end
return #KEYS - 1`)

// row is one key to write, with its life; 0 has no end.
type row struct {
	key     string
	message wire.Message
	life    time.Duration
}

// write encodes all rows before it writes any, and writes them under the fence
// in their order.
func (s *Store) write(ctx context.Context, epoch int64, rows []row) error {
	values := make([][]byte, len(rows))
	for i, r := range rows {
		var err error
		if values[i], err = wire.Encode(r.message); err != nil {
			return &KeyError{Key: r.key, Err: err}
		}
	}
	for start := 0; start < len(rows); start += batch {
		end := min(start+batch, len(rows))
		keys, args := []string{s.key("epoch")}, []any{epoch}
		for i := start; i < end; i++ {
			keys = append(keys, rows[i].key)
			args = append(args, values[i], rows[i].life.Milliseconds())
		}
		if err := fence.Run(ctx, s.client, keys, args...).Err(); err != nil {
			return fmt.Errorf("redis: write %d keys: %w", end-start, fenced(epoch, err))
		}
	}
	return nil
}

// fenced turns a script's refusal into ErrFenced.
func fenced(epoch int64, err error) error {
	if strings.Contains(err.Error(), "FENCED") {
		return fmt.Errorf("epoch %d: %w (%v)", epoch, ErrFenced, err)
	}
	return err
}

// prolong gives KEYS[2…] a new life of ARGV[2] ms unless KEYS[1], the epoch, is
// later than ARGV[1].
var prolong = redis.NewScript(`
local held = tonumber(redis.call('GET', KEYS[1]) or '0') or 0
if tonumber(ARGV[1]) < held then
  return redis.error_reply('FENCED by epoch ' .. held)
end
for i = 2, #KEYS do
  redis.call('PEXPIRE', KEYS[i], ARGV[2])
end
return #KEYS - 1`)

// keep prolongs the rows that d keeps.
func (s *Store) keep(ctx context.Context, d *Dispatch) error {
	var all []string
	for _, l := range d.KeepServices {
		all = append(all, s.splitKey(l, ""))
	}
	for _, n := range d.KeepNodes {
		all = append(all, s.ratiosKey(n))
	}
	for len(all) > 0 {
		part := all[:min(batch, len(all))]
		all = all[len(part):]
		keys := append([]string{s.key("epoch")}, part...)
		if err := prolong.Run(ctx, s.client, keys, d.Epoch, d.Life.Milliseconds()).Err(); err != nil {
			return fmt.Errorf("redis: keep %d keys: %w", len(part), fenced(d.Epoch, err))
		}
	}
	return nil
}

// takeEpoch sets KEYS[1] to ARGV[1] where that is later, and returns what it held.
var takeEpoch = redis.NewScript(`
local held = tonumber(redis.call('GET', KEYS[1]) or '0') or 0
if tonumber(ARGV[1]) > held then
  redis.call('SET', KEYS[1], ARGV[1])
end
return held`)

// ClaimEpoch begins an epoch that a Lease counts; leaders of earlier ones can no
// longer write. Where Redis holds that epoch or a later one already, nothing
// changes, and the error is ErrFenced beside the held epoch.
func (s *Store) ClaimEpoch(ctx context.Context, epoch int64) (held int64, err error) {
	held, err = takeEpoch.Run(ctx, s.client, []string{s.key("epoch")}, epoch).Int64()
	if err != nil {
		return 0, fmt.Errorf("redis: claim epoch %d in %s: %w", epoch, s.key("epoch"), err)
	}
	if held >= epoch {
		return held, fmt.Errorf("claim epoch %d: redis holds %d: %w", epoch, held, ErrFenced)
	}
	return held, nil
}

// succeed counts KEYS[1] up; what is not a number counts as 0.
var succeed = redis.NewScript(`
local next = (tonumber(redis.call('GET', KEYS[1]) or '0') or 0) + 1
redis.call('SET', KEYS[1], next)
return next`)

// NextEpoch begins a new epoch and returns it; leaders of earlier ones can no
// longer write. It serves where no Kubernetes Lease counts the leaders.
func (s *Store) NextEpoch(ctx context.Context) (int64, error) {
	epoch, err := succeed.Run(ctx, s.client, []string{s.key("epoch")}).Int64()
	if err != nil {
		return 0, fmt.Errorf("redis: next epoch in %s: %w", s.key("epoch"), err)
	}
	return epoch, nil
}

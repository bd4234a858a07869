// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/edgeweir/weir/internal/wire"
)

// ErrNoSlot says that an owner has no free slot for a pod.
var ErrNoSlot = errors.New("no free slot")

// Linger is how long a directive can be read after its last deadline, so that
// what became of its slots is known.
const Linger = time.Minute

func (s *Store) directiveKey(owner string) string { return s.key("directive:" + owner) }

// claimsKey is a hash: slot id → wire.Claim. It lies apart from the directive so
// that writing a directive again keeps the claims.
func (s *Store) claimsKey(owner string) string { return s.key("directive:" + owner + ":claims") }

// PutDirectives writes directives, one per owner; each replaces the owner's
// former one and keeps the claims of the slots that stay. It returns how many
// extenders have been told (by the server that was asked: with Redis Cluster
// there may be more); they find the directives without being told, but later.
// ErrFenced means that a later leader has begun.
func (s *Store) PutDirectives(ctx context.Context, epoch int64, directives []wire.Directive) (heard int64, err error) {
	rows := make([]row, len(directives))
	index := make([]redis.Z, len(directives))
	now := time.Now()
	for i := range directives {
		d := &directives[i]
		life := max(0, d.Deadline().Sub(now)) + Linger
		rows[i] = row{key: s.directiveKey(d.Owner), message: d, life: life}
		index[i] = redis.Z{Score: float64(now.Add(life).UnixMilli()), Member: d.Owner}
	}
	if len(rows) == 0 {
		return 0, nil
	}
	// The index goes first: a name too many in it does no harm.
	key := s.key("directives")
	pipe := s.client.Pipeline()
	pipe.ZRemRangeByScore(ctx, key, "-inf", strconv.FormatInt(now.UnixMilli(), 10))
	pipe.ZAddGT(ctx, key, index...)
	for i := range rows { // claims outlive their directive, never the other way round
		pipe.ExpireGT(ctx, s.claimsKey(directives[i].Owner), rows[i].life+time.Second)
	}
	if err := checked(pipe.Exec(ctx)); err != nil {
		return 0, fmt.Errorf("redis: index %d directives in %s: %w", len(rows), key, err)
	}
	if err := s.write(ctx, epoch, rows); err != nil {
		return 0, err
	}
	heard, err = s.client.Publish(ctx, s.key("directive"), len(rows)).Result()
	if err != nil {
		return 0, fmt.Errorf("redis PUBLISH %s: %w", s.key("directive"), err)
	}
	return heard, nil
}

// checked returns the first error among a pipeline's replies: each has its own.
func checked(replies []redis.Cmder, err error) error {
	for _, r := range replies {
		if r.Err() != nil {
			return r.Err()
		}
	}
	return err
}

// Directives returns all that can be read, their slots with their claims. The
// error joins one KeyError per value that can't be used; the others are
// returned all the same.
func (s *Store) Directives(ctx context.Context) ([]wire.Directive, error) {
	index := s.key("directives")
	owners, err := s.client.ZRangeByScore(ctx, index, &redis.ZRangeBy{Min: strconv.FormatInt(time.Now().UnixMilli(), 10), Max: "+inf"}).Result()
	if err != nil {
		return nil, fmt.Errorf("redis ZRANGEBYSCORE %s: %w", index, err)
	}
	var directives []wire.Directive
	var bad []error
	for len(owners) > 0 {
		part := owners[:min(batch, len(owners))]
		owners = owners[len(part):]
		values, claims, err := s.readDirectives(ctx, part)
		if err != nil {
			return nil, err
		}
		for i, owner := range part {
			text, ok := values[i].(string)
			if !ok {
				continue
			}
			key := s.directiveKey(owner)
			d, err := decode[wire.Directive](key, text, func(d *wire.Directive) error { return meant("owner", d.Owner, owner) })
			if err != nil {
				bad = append(bad, err)
				continue
			}
			bad = append(bad, s.join(&d, claims[i]))
			directives = append(directives, d)
		}
	}
	return directives, errors.Join(bad...)
}

// readDirectives returns the values and the claims of owners, in one round trip.
func (s *Store) readDirectives(ctx context.Context, owners []string) ([]any, []map[string]string, error) {
	pipe := s.client.Pipeline()
	keys := make([]string, len(owners))
	hashes := make([]*redis.MapStringStringCmd, len(owners))
	for i, owner := range owners {
		keys[i] = s.directiveKey(owner)
		hashes[i] = pipe.HGetAll(ctx, s.claimsKey(owner))
	}
	values := pipe.MGet(ctx, keys...)
	if err := checked(pipe.Exec(ctx)); err != nil {
		return nil, nil, fmt.Errorf("redis: read %d directives: %w", len(owners), err)
	}
	claims := make([]map[string]string, len(owners))
	for i, h := range hashes {
		claims[i] = h.Val()
	}
	return values.Val(), claims, nil
}

// join gives d's slots their claims; one that can't be read is no claim.
func (s *Store) join(d *wire.Directive, claims map[string]string) error {
	var bad []error
	for i := range d.Slots {
		slot := &d.Slots[i]
		slot.Claim = nil
		text, ok := claims[slot.ID]
		if !ok {
			continue
		}
		c, err := decode[wire.Claim](s.claimsKey(d.Owner)+" "+slot.ID, text, func(*wire.Claim) error { return nil })
		if err != nil {
			bad = append(bad, err)
			continue
		}
		slot.Claim = &c
	}
	return errors.Join(bad...)
}

// claim gives the pod ARGV[1] the first free slot of ARGV[3…] that the directive
// KEYS[1] has, by the value ARGV[2] in the hash KEYS[2]. A pod that holds a slot,
// or held it until it was let go, gets the same again. The answer is the slot's
// id, or an empty one.
var claim = redis.NewScript(`
local text = redis.call('GET', KEYS[1])
if not text then return '' end
local known, directive = {}, cjson.decode(text)
if type(directive.slots) == 'table' then
  for _, slot in ipairs(directive.slots) do known[slot.id] = true end
end
local taken, held = {}, redis.call('HGETALL', KEYS[2])
for i = 1, #held, 2 do
  local ok, c = pcall(cjson.decode, held[i + 1])
  taken[held[i]] = true
  if ok and type(c) == 'table' and c.pod == ARGV[1] and known[held[i]] then return held[i] end
end
for i = 3, #ARGV do
  if known[ARGV[i]] and not taken[ARGV[i]] then
    redis.call('HSET', KEYS[2], ARGV[i], ARGV[2])
    redis.call('PEXPIRE', KEYS[2], math.max(redis.call('PTTL', KEYS[1]), 1000))
    return ARGV[i]
  end
end
return ''`)

// Claim takes one of an owner's slots for the pod of c, the first free one in
// the order of slots, and returns its id. A pod that has a slot gets it again,
// whatever slots says. ErrNoSlot means that none is free.
func (s *Store) Claim(ctx context.Context, owner string, slots []string, c wire.Claim) (string, error) {
	value, err := wire.Encode(&c)
	if err != nil {
		return "", err
	}
	args := []any{c.Pod, value}
	for _, id := range slots {
		args = append(args, id)
	}
	slot, err := claim.Run(ctx, s.client, []string{s.directiveKey(owner), s.claimsKey(owner)}, args...).Text()
	if err != nil {
		return "", fmt.Errorf("redis: claim a slot of %s: %w", s.directiveKey(owner), err)
	}
	if slot == "" {
		return "", fmt.Errorf("%s: pod %s: %w", s.directiveKey(owner), c.Name, ErrNoSlot)
	}
	return slot, nil
}

// settle changes slot ARGV[1] of the hash KEYS[2] if the pod ARGV[2] holds it and
// it is not settled: to the value ARGV[4], or to none where that is empty, which
// it publishes at ARGV[3], since another pod may wait for the slot. An empty
// ARGV[2] settles a slot that no pod holds. It answers 1 where it changed
// something.
var settle = redis.NewScript(`
local text = redis.call('HGET', KEYS[2], ARGV[1])
if text then
  local ok, c = pcall(cjson.decode, text)
  if ok and type(c) == 'table' and (c.pod ~= ARGV[2] or c.state ~= 'claimed') then return 0 end
elseif ARGV[2] ~= '' then
  return 0
end
local life = redis.call('PTTL', KEYS[1])
if life <= 0 then return 0 end
if ARGV[4] == '' then
  redis.call('HDEL', KEYS[2], ARGV[1])
  redis.call('PUBLISH', ARGV[3], 1)
else
  redis.call('HSET', KEYS[2], ARGV[1], ARGV[4])
  redis.call('PEXPIRE', KEYS[2], life)
end
return 1`)

// Settle ends the claim of c's pod on a slot: c says that it landed or was let
// go. With no pod in c it lets go a slot that nobody claimed. It returns false
// where the pod does not hold the slot, or it is settled already.
func (s *Store) Settle(ctx context.Context, owner, slot string, c wire.Claim) (bool, error) {
	value, err := wire.Encode(&c)
	if err != nil {
		return false, err
	}
	return s.change(ctx, owner, slot, c.Pod, value)
}

// Release frees a slot whose pod vanished or was bound elsewhere. It returns
// false where the pod does not hold the slot, or it is settled already.
func (s *Store) Release(ctx context.Context, owner, slot, pod string) (bool, error) {
	return s.change(ctx, owner, slot, pod, nil)
}

func (s *Store) change(ctx context.Context, owner, slot, pod string, value []byte) (bool, error) {
	changed, err := settle.Run(ctx, s.client, []string{s.directiveKey(owner), s.claimsKey(owner)},
		slot, pod, s.key("directive"), value).Int()
	if err != nil {
		return false, fmt.Errorf("redis: settle slot %s of %s: %w", slot, s.directiveKey(owner), err)
	}
	return changed == 1, nil
}

// DirectiveNotices returns a channel that gets a value when directives have been
// written or slots freed; several may fold into one. It is closed when ctx ends.
func (s *Store) DirectiveNotices(ctx context.Context) <-chan struct{} {
	return s.listen(ctx, s.key("directive"))
}

// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/edgeweir/weir/internal/wire"
)

// batch bounds how many keys one command names, so that none holds Redis up.
const batch = 500

// Store is a connection to the Redis that holds one cluster's messages. Its
// methods may be called concurrently.
type Store struct {
	client  redis.UniversalClient
	cluster string
}

// Open prepares a connection; Redis need not be there yet.
func Open(cluster string, o Options) (*Store, error) {
	u, err := o.universal()
	if err != nil {
		return nil, err
	}
	quiet.Do(func() { redis.SetLogger(silent{}) })
	return &Store{client: redis.NewUniversalClient(u), cluster: cluster}, nil
}

// The client logs to standard error what its calls return anyway.
var quiet sync.Once

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// Close ends the connection.
func (s *Store) Close() error { return s.client.Close() }

// Ping says whether Redis answers.
func (s *Store) Ping(ctx context.Context) error {
	if err := s.client.Ping(ctx).Err(); err != nil {
		return fmt.Errorf("redis: %w", err)
	}
	return nil
}

// KeyError tells which key holds a value that can't be used.
type KeyError struct {
	Key string
	Err error
}

func (e *KeyError) Error() string { return fmt.Sprintf("redis key %s: %v", e.Key, e.Err) }

// Unwrap returns the cause.
func (e *KeyError) Unwrap() error { return e.Err }

func (s *Store) key(parts string) string { return "weir:{" + s.cluster + "}:" + parts }

func (s *Store) arrivalsKey(node string) string { return s.key("arrivals:" + node) }

func (s *Store) ratiosKey(node string) string { return s.key("ratios:" + node) }

func (s *Store) splitKey(service, zone string) string {
	if zone == "" {
		return s.key("split:" + service)
	}
	return s.key("split:" + service + ":" + zone)
}

// get returns the values of keys by key; those that don't exist are left out.
func (s *Store) get(ctx context.Context, keys []string) (map[string]string, error) {
	found := make(map[string]string, len(keys))
	for len(keys) > 0 {
		part := keys[:min(batch, len(keys))]
		keys = keys[len(part):]
		values, err := s.client.MGet(ctx, part...).Result()
		if err != nil {
			return nil, fmt.Errorf("redis MGET of %d keys: %w", len(part), err)
		}
		for i, v := range values {
			if text, ok := v.(string); ok {
				found[part[i]] = text
			}
		}
	}
	return found, nil
}

// decode reads the value of key as an M that check accepts.
func decode[M any, P interface {
	*M
	wire.Message
}](key, value string, check func(*M) error) (M, error) {
	m, err := wire.Decode[M, P]([]byte(value))
	if err == nil {
		err = check(&m)
	}
	if err != nil {
		var none M
		return none, &KeyError{Key: key, Err: err}
	}
	return m, nil
}

// read returns the value of one key, or nil when there is none.
func read[M any, P interface {
	*M
	wire.Message
}](ctx context.Context, s *Store, name string) (*M, error) {
	key := s.key(name)
	values, err := s.get(ctx, []string{key})
	if err != nil {
		return nil, err
	}
	value, ok := values[key]
	if !ok {
		return nil, nil
	}
	m, err := decode[M, P](key, value, func(*M) error { return nil })
	if err != nil {
		return nil, err
	}
	return &m, nil
}

// meant refuses a value that was written for something else: a copied key, or
// two names that make the same key.
func meant(field, got, want string) error {
	if got == want {
		return nil
	}
	return &wire.FieldError{Field: field, Value: fmt.Sprintf("%q", got), Allowed: fmt.Sprintf("%q", want)}
}

// PutArrivals stores what the agent of a.Node counted, for life.
func (s *Store) PutArrivals(ctx context.Context, a *wire.Arrivals, life time.Duration) error {
	data, err := wire.Encode(a)
	if err != nil {
		return err
	}
	key := s.arrivalsKey(a.Node)
	if err := s.client.Set(ctx, key, data, life).Err(); err != nil {
		return fmt.Errorf("redis SET %s: %w", key, err)
	}
	return nil
}

// Arrivals returns what the agents of nodes last wrote, by node. A node that is
// silent is absent. The error joins one KeyError per value that can't be used;
// the others are returned all the same.
func (s *Store) Arrivals(ctx context.Context, nodes []string) (map[string]wire.Arrivals, error) {
	keys := make([]string, len(nodes))
	for i, n := range nodes {
		keys[i] = s.arrivalsKey(n)
	}
	values, err := s.get(ctx, keys)
	if err != nil {
		return nil, err
	}
	arrivals := make(map[string]wire.Arrivals, len(values))
	var bad []error
	for i, n := range nodes {
		value, ok := values[keys[i]]
		if !ok {
			continue
		}
		a, err := decode[wire.Arrivals](keys[i], value, func(a *wire.Arrivals) error { return meant("node", a.Node, n) })
		if err != nil {
			bad = append(bad, err)
			continue
		}
		arrivals[n] = a
	}
	return arrivals, errors.Join(bad...)
}

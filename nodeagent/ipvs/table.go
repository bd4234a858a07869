// SPDX-License-Identifier: Apache-2.0

package ipvs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"time"

	"github.com/mdlayher/genetlink"
	"github.com/mdlayher/netlink"
	moby "github.com/moby/ipvs"
	"golang.org/x/sys/unix"
)

// ErrNoIPVS is returned by Open where the kernel has no IPVS.
var ErrNoIPVS = errors.New("kernel without IPVS: load it with `modprobe ip_vs`")

// ErrStuck is returned when a netlink call did not end in time. The next call
// opens new sockets; what this one wrote is unknown until the next Dump.
var ErrStuck = errors.New("netlink call is stuck")

// callLimit bounds calls whose context has no earlier deadline.
const callLimit = 10 * time.Second

// Table is the kernel's IPVS table of the network namespace in which it was
// opened; later calls have to be made in that namespace too. It has one owner:
// its methods must not run at the same time.
type Table struct {
	logger *slog.Logger
	family uint16
	open   *session // nil after a stuck call
}

// session is the pair of sockets behind a Table. A stuck call keeps its own.
type session struct {
	reads  *moby.Handle
	writes *socket
}

func (s *session) close() {
	s.reads.Close()
	s.writes.close()
}

// Open opens the table. The error is ErrNoIPVS where the kernel has no IPVS,
// also after modprobe.
func Open(logger *slog.Logger) (*Table, error) {
	// moby/ipvs remembers an absent family for the life of the process and then
	// does nothing, silently: it may only be touched once the family is there.
	family, err := findFamily()
	if err != nil {
		return nil, err
	}
	t := &Table{logger: logger, family: family}
	if t.open, err = t.connect(); err != nil {
		return nil, err
	}
	return t, nil
}

func findFamily() (uint16, error) {
	family, err := lookUpFamily()
	if errors.Is(err, os.ErrNotExist) {
		if out, failure := exec.Command("modprobe", "ip_vs").CombinedOutput(); failure != nil {
			return 0, fmt.Errorf("%w (modprobe: %w %s)", ErrNoIPVS, failure, firstLine(out))
		}
		family, err = lookUpFamily()
	}
	if errors.Is(err, os.ErrNotExist) {
		return 0, ErrNoIPVS
	}
	if err != nil {
		return 0, fmt.Errorf("look up netlink family IPVS: %w", err)
	}
	return family, nil
}

func lookUpFamily() (uint16, error) {
	conn, err := genetlink.Dial(nil)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	family, err := conn.GetFamily("IPVS")
	return family.ID, err
}

func firstLine(out []byte) string {
	for i, b := range out {
		if b == '\n' {
			return string(out[:i])
		}
	}
	return string(out)
}

func (t *Table) connect() (*session, error) {
	writes, err := openSocket(t.family)
	if err != nil {
		return nil, err
	}
	reads, err := moby.New("")
	if err != nil {
		writes.close()
		return nil, fmt.Errorf("open moby/ipvs handle: %w", err)
	}
	return &session{reads: reads, writes: writes}, nil
}

// Close closes the sockets; the kernel's table stays as it is.
func (t *Table) Close() {
	if t.open != nil {
		t.open.close()
	}
}

// call runs f with a deadline from outside: moby/ipvs receives again on EAGAIN
// without end. A call that misses it is left behind with its sockets. A context
// that is merely cancelled does not cut a call short: what is half written
// would be unknown.
func call[T any](ctx context.Context, t *Table, f func(*session) (T, error)) (T, error) {
	var none T
	if err := ctx.Err(); err != nil {
		return none, err
	}
	if t.open == nil {
		fresh, err := t.connect()
		if err != nil {
			return none, err
		}
		t.logger.Warn("netlink sockets to ipvs opened anew")
		t.open = fresh
	}
	type outcome struct {
		value T
		err   error
	}
	done := make(chan outcome, 1)
	used := t.open
	go func() {
		value, err := f(used)
		done <- outcome{value, err}
	}()
	select {
	case o := <-done:
		if errors.Is(o.err, unix.EAGAIN) || errors.Is(o.err, unix.ENOBUFS) {
			used.close()
			t.open = nil
			return none, errors.Join(ErrStuck, o.err)
		}
		return o.value, o.err
	case <-time.After(timeLeft(ctx)):
		// Closing makes moby/ipvs give up; ours ends by its own time limit, and is
		// closed after, so that no other file gets its number meanwhile.
		used.reads.Close()
		go func() {
			<-done
			used.writes.close()
		}()
		t.open = nil
		return none, ErrStuck
	}
}

func timeLeft(ctx context.Context) time.Duration {
	if deadline, set := ctx.Deadline(); set {
		return min(time.Until(deadline), callLimit)
	}
	return callLimit
}

// Dump returns all virtual servers of the namespace with their destinations,
// ours and others', in the kernel's order. Those that stand for a firewall mark
// have no address and are left out.
func (t *Table) Dump(ctx context.Context) ([]Service, error) {
	services, err := call(ctx, t, func(s *session) ([]Service, error) { return dump(s.reads) })
	if err != nil {
		return nil, fmt.Errorf("dump ipvs table: %w", err)
	}
	return services, nil
}

// Failure is a write that the kernel refused.
type Failure struct {
	Op  Op
	Err error
}

// Result says what Apply wrote.
type Result struct {
	Applied int
	Failed  []Failure
}

// Apply makes the writes in order, many in one send. Writes are independent: a
// refused one does not stop the others. Removing what is gone is no failure.
func (t *Table) Apply(ctx context.Context, ops []Op) (Result, error) {
	if removesFlows(ops) {
		defer t.expireFlows()()
	}
	r, err := call(ctx, t, func(s *session) (Result, error) { return apply(s.writes, ops) })
	if err != nil {
		return r, fmt.Errorf("write %d changes of the ipvs table: %w", len(ops), err)
	}
	return r, nil
}

func apply(s *socket, ops []Op) (Result, error) {
	var r Result
	for start := 0; start < len(ops); start += batchMessages {
		part := ops[start:min(start+batchMessages, len(ops))]
		refused, err := s.batch(len(part), func(i int, seq uint32, flags netlink.HeaderFlags) ([]byte, error) {
			return encode(part[i], s.family, seq, flags)
		})
		if err != nil {
			return r, err
		}
		for i, o := range part {
			switch err := refused[i]; {
			case err == nil, isRemoval(o.Kind) && (errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH)):
				r.Applied++
			default:
				r.Failed = append(r.Failed, Failure{o, fmt.Errorf("%s: %w", o, err)})
			}
		}
	}
	return r, nil
}

func isRemoval(k Kind) bool { return k == RemoveService || k == RemoveDestination }

// Missing returns those of keys that are not in the table. It is the cheap look
// by which a table that something flushed is noticed.
func (t *Table) Missing(ctx context.Context, keys ...Key) ([]Key, error) {
	missing, err := call(ctx, t, func(s *session) ([]Key, error) { return absent(s.writes, keys) })
	if err != nil {
		return nil, fmt.Errorf("look for %d virtual servers: %w", len(keys), err)
	}
	return missing, nil
}

func absent(s *socket, keys []Key) ([]Key, error) {
	var missing []Key
	for start := 0; start < len(keys); start += batchMessages {
		part := keys[start:min(start+batchMessages, len(keys))]
		refused, err := s.batch(len(part), func(i int, seq uint32, flags netlink.HeaderFlags) ([]byte, error) {
			return encodeGet(part[i], s.family, seq, flags)
		})
		if err != nil {
			return nil, err
		}
		for i, k := range part {
			switch err := refused[i]; {
			case errors.Is(err, unix.ESRCH), errors.Is(err, unix.ENOENT):
				missing = append(missing, k)
			case err != nil:
				return nil, fmt.Errorf("get %s: %w", k, err)
			}
		}
	}
	return missing, nil
}

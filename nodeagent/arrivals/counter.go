// SPDX-License-Identifier: Apache-2.0

package arrivals

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/rlimit"

	"github.com/edgeweir/weir/bpf"
)

// Counter is the attached programs and their maps. Its methods may be called from
// several goroutines.
type Counter struct {
	log      *slog.Logger
	store    *store
	attached attachment
	epoch    string

	mu    sync.Mutex
	names map[bpf.ArrivalsNameKey]string // what Read calls ids, renewed by Track and on a miss
}

// Open makes or takes over the maps under Options.Dir and attaches the programs,
// walking down from netfilter to none where the kernel lacks support. Programs of
// a predecessor go on counting until these do; counts are kept. It needs the
// capabilities BPF, PERFMON and NET_ADMIN, and a bpf filesystem at Options.Dir.
func Open(options Options) (*Counter, error) {
	options, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := rlimit.RemoveMemlock(); err != nil {
		return nil, fmt.Errorf("arrivals: lift the limit on locked memory: %w", err)
	}
	store, err := openStore(options)
	if err != nil {
		return nil, fmt.Errorf("arrivals: %w", err)
	}
	c := &Counter{log: options.Logger, store: store}
	if err := store.exclusive(func() error { return c.start(options) }); err != nil {
		return nil, errors.Join(fmt.Errorf("arrivals: %w", err), c.Close())
	}
	return c, nil
}

func (c *Counter) start(options Options) error {
	if err := c.store.openMaps(options); err != nil {
		return err
	}
	epoch, err := epochOf(c.store.maps.Arrivals)
	if err != nil {
		return err
	}
	c.epoch = epoch
	if err := c.store.prepare(options.UDPTimeout); err != nil {
		return err
	}
	c.attached, err = attach(options, c.store)
	if err != nil {
		return err
	}
	c.log.Info("arrivals attached", "attachment", c.Attachment(), "where", c.attached.where(), "dir", c.store.path)
	return nil
}

// epochOf names the life of the counters: it ends with the machine's, or when
// the map is made anew.
func epochOf(m *ebpf.Map) (string, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("read boot id: %w", err)
	}
	info, err := m.Info()
	if err != nil {
		return "", fmt.Errorf("map arrivals: info: %w", err)
	}
	id, ok := info.ID()
	if !ok {
		return "", errors.New("map arrivals: the kernel gives no id")
	}
	return fmt.Sprintf("%s/%d", strings.TrimSpace(string(boot)), id), nil
}

// Attachment says which way of counting runs.
func (c *Counter) Attachment() Attachment { return c.attached.kind() }

// Epoch names the life of the counters; totals of different epochs have nothing
// in common.
func (c *Counter) Epoch() string { return c.epoch }

// SetUDPTimeout sets the silence after which a UDP flow is a new task. It should
// follow IPVS's (ipvsadm --set).
func (c *Counter) SetUDPTimeout(timeout time.Duration) error {
	if timeout <= 0 {
		return fmt.Errorf("arrivals: UDP timeout %s is not positive", timeout)
	}
	if err := c.store.setUDPTimeout(timeout); err != nil {
		return fmt.Errorf("arrivals: %w", err)
	}
	return nil
}

// Rescan attaches to devices that came since, where counting is per device.
func (c *Counter) Rescan() error {
	if err := c.store.exclusive(c.attached.rescan); err != nil {
		return fmt.Errorf("arrivals: %w", err)
	}
	return nil
}

// Close lets go of the maps and programs. They stay pinned and go on counting.
func (c *Counter) Close() error {
	var err error
	if c.attached != nil {
		err = c.attached.close()
	}
	return errors.Join(err, c.store.close())
}

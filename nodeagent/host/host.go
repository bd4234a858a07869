// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"slices"
)

// Host keeps one network namespace ready for our virtual servers. It has one
// owner: its methods must not run at the same time.
type Host struct {
	logger *slog.Logger
}

// New returns a Host for the network namespace of the threads that will call
// it.
func New(logger *slog.Logger) *Host { return &Host{logger: logger} }

// Addresses returns the service addresses that the device holds. What is bound
// there, also by an agent before this one, is ours.
func (h *Host) Addresses() ([]netip.Addr, error) {
	ours, _, err := addressesByDevice()
	return ours, err
}

// Conflicts returns those of the service addresses of d that may not be bound
// here.
func (h *Host) Conflicts(d Desired) (Conflicts, error) {
	_, held, err := addressesByDevice()
	if err != nil {
		return nil, err
	}
	return derive(d, held).refused, nil
}

// Ensure is Prepare and Bind.
func (h *Host) Ensure(ctx context.Context, d Desired) error {
	if err := h.Prepare(ctx, d); err != nil && !errors.As(err, new(Conflicts)) {
		return err
	}
	return h.Bind(ctx, d)
}

// Prepare makes sysctls and the nftables table right. It comes before the
// virtual servers are written: their connections need conntrack and
// masquerading from the first one on. An address that is held by another
// device is left out and told as Conflicts; the rest is made.
func (h *Host) Prepare(ctx context.Context, d Desired) error {
	_, held, err := addressesByDevice()
	if err != nil {
		return err
	}
	s := derive(d, held)
	if err := ctx.Err(); err != nil {
		return err
	}
	changed, err := apply(sysctlRoot, settings(s.hasIPv6()))
	for _, line := range changed {
		h.logger.Info("sysctl set", "change", line)
	}
	if err != nil {
		return err
	}
	rewritten, err := writeTable(s.elements)
	if err != nil {
		return err
	}
	if rewritten != "" {
		h.logger.Info("nftables table written", "table", tableName, "change", rewritten)
	}
	return s.refused.orNil()
}

// Bind puts the service addresses on the device and takes others off it. It
// comes after the virtual servers are written: a client that finds the address
// without its server waits a second for its next SYN. An address that is held
// by another device is left out and told as Conflicts; one that both devices
// hold stays.
func (h *Host) Bind(ctx context.Context, d Desired) error {
	made, err := ensureDevice()
	if err != nil {
		return err
	}
	if made {
		h.logger.Info("device made", "device", DeviceName)
	}
	ours, held, err := addressesByDevice()
	if err != nil {
		return err
	}
	s := derive(d, held)
	for _, a := range ours {
		if _, both := held[a]; both || slices.Contains(s.addresses, a) {
			continue
		}
		if err := removeAddress(a); err != nil {
			return err
		}
		h.logger.Info("service address removed", "device", DeviceName, "address", a)
	}
	for _, a := range s.addresses {
		if slices.Contains(ours, a) {
			continue
		}
		if err := errors.Join(ctx.Err(), addAddress(a)); err != nil {
			return err
		}
		h.logger.Info("service address added", "device", DeviceName, "address", a)
	}
	return s.refused.orNil()
}

// Cleanup removes the device and the nftables table, and nothing else: sysctls
// stay as they are, since others may need them by now.
func (h *Host) Cleanup(context.Context) error {
	return errors.Join(deleteDevice(), deleteTable())
}

// orNil keeps an empty list from being an error.
func (c Conflicts) orNil() error {
	if len(c) == 0 {
		return nil
	}
	return c
}

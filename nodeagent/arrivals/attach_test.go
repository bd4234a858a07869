// SPDX-License-Identifier: Apache-2.0

package arrivals

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/edgeweir/weir/internal/testenv"
)

// way is an attachment of a kind, and nothing else.
type way struct {
	unattached
	is Attachment
}

func (w way) kind() Attachment { return w.is }

func TestDescendOnlyWhereSupportIsMissing(t *testing.T) {
	missing := fmt.Errorf("no such program type: %w", ebpf.ErrNotSupported)
	cases := []struct {
		attach string
		faults map[Attachment]error
		want   Attachment // empty: an error
	}{
		{attachAuto, nil, Netfilter},
		{attachAuto, map[Attachment]error{Netfilter: missing}, TCX},
		{attachAuto, map[Attachment]error{Netfilter: missing, TCX: missing}, Clsact},
		{attachAuto, map[Attachment]error{Netfilter: missing, TCX: missing, Clsact: missing}, None},
		{attachAuto, map[Attachment]error{Netfilter: unix.EPERM}, ""},
		{attachAuto, map[Attachment]error{Netfilter: missing, TCX: errors.New("verifier")}, ""},
		{string(TCX), map[Attachment]error{TCX: missing}, ""},
		{string(Clsact), nil, Clsact},
	}
	for _, c := range cases {
		var log strings.Builder
		at, err := descend(ladders[c.attach], slog.New(slog.NewTextHandler(&log, nil)), func(kind Attachment) (attachment, error) {
			return way{is: kind}, c.faults[kind]
		})
		if c.want == "" {
			if err == nil {
				t.Errorf("%s with %v: no error", c.attach, c.faults)
			}
			continue
		}
		if err != nil || at.kind() != c.want {
			t.Errorf("%s with %v: %v, %v; want %s", c.attach, c.faults, at, err, c.want)
		}
		if told := strings.Count(log.String(), "missing in this kernel"); told != len(c.faults) {
			t.Errorf("%s with %v: %d faults told: %s", c.attach, c.faults, told, log.String())
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	testenv.Require(t, testenv.Root)
	for want, options := range map[string]Options{
		"not on a bpf filesystem":  {Dir: t.TempDir() + "/weir"},
		`attach "xdp": want auto`:  {Attach: "xdp"},
		"UDP timeout -1s":          {UDPTimeout: -time.Second},
		`interface pattern "eth["`: {Interfaces: []string{"eth["}},
	} {
		if _, err := Open(options); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// Devices that come later are counted after a rescan, and those that went are
// forgotten.
func TestRescan(t *testing.T) {
	for _, kind := range []Attachment{TCX, Clsact} {
		t.Run(string(kind), func(t *testing.T) {
			node, _ := newWire(t)
			node.serve("[::]:80")
			dir := bpffs(t)
			c := node.open(Options{Dir: dir, Attach: string(kind), Interfaces: []string{"pod*"}})
			track(t, c)
			pod := newNamespace(t)
			node.run(`
				ip link add pod1 type veth peer name eth0 netns PEER
				ip addr add 10.1.0.254/24 dev pod1
				ip link set pod1 up`, pod)
			pod.run(`
				ip addr add 10.1.0.1/24 dev eth0
				ip link set eth0 up
				ip route add default via 10.1.0.254`)
			pod.connect(3, vip4+":80")
			rescan := func() {
				var err error
				node.do(func() { err = c.Rescan() })
				if err != nil {
					t.Fatal(err)
				}
			}
			rescan()
			rescan()
			wantRows(t, c, map[rowName]uint64{{"web4", OriginOther}: pod.connect(7, vip4+":80")})
			node.run("ip link del pod1")
			rescan()
			for _, path := range pinsOf(t, dir) {
				if strings.Contains(path, string(kind)+"_") || strings.Contains(path, "qdisc_") {
					t.Errorf("%s is left", path)
				}
			}
		})
	}
}

// Without an attachment nothing is counted, and everything else works.
func TestNoAttachment(t *testing.T) {
	c := counterOn(t, Options{})
	mustTrack(t, c, Service{"a", []Address{tcp("10.0.0.1", 80)}})
	totals, err := c.Read(context.Background())
	if err != nil || c.Attachment() != None || c.Attachment().SeesLocal() || totals.ByService()["a"] != 0 {
		t.Errorf("%s: %+v, %v", c.Attachment(), totals, err)
	}
	if err := c.SetUDPTimeout(time.Minute); err != nil {
		t.Error(err)
	}
	if err := c.SetUDPTimeout(0); err == nil {
		t.Error("timeout 0 was taken")
	}
}

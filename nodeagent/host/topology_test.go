// SPDX-License-Identifier: Apache-2.0

package host

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/edgeweir/weir/internal/testenv"
	"github.com/edgeweir/weir/nodeagent/ipvs"
)

// place is a network namespace behind a veth pair of the node: a pod, or a
// client outside of the cluster.
type place struct {
	name      string
	namespace netns.NsHandle
	four, six netip.Addr
}

// topology is a node, which is the namespace of the test's thread, with places
// around it, a Host and a Table.
type topology struct {
	t      *testing.T
	node   *place // without addresses of its own
	places int
	host   *Host
	table  *ipvs.Table
	drain  ipvs.Drain
}

const (
	serverPort = 8080
	wait       = 10 * time.Second // emulated machines are slow
	noAnswer   = 1500 * time.Millisecond
	later      = time.Second // after which the server answers a line that says so
)

var (
	vip4     = netip.MustParseAddr("10.96.0.1")
	vip6     = netip.MustParseAddr("fd00:96::1")
	podCIDRs = []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("fd01::/16")}
)

func newTopology(t *testing.T) *topology {
	t.Helper()
	testenv.Require(t, testenv.Root, testenv.IPVS, testenv.Dummy, testenv.NFTables)
	namespace(t)
	setUp(t, "lo")
	logger := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	table, err := ipvs.Open(logger)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(table.Close)
	own, err := netns.Get()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { own.Close() })
	return &topology{t: t, node: &place{name: "node", namespace: own}, host: New(logger), table: table, drain: ipvs.Drain{Limit: time.Hour}}
}

func setUp(t *testing.T, device string) netlink.Link {
	t.Helper()
	link, err := netlink.LinkByName(device)
	if err != nil {
		t.Fatalf("device %s: %v", device, err)
	}
	if err := netlink.LinkSetUp(link); err != nil {
		t.Fatalf("device %s: %v", device, err)
	}
	return link
}

func addTo(t *testing.T, link netlink.Link, prefixes ...string) {
	t.Helper()
	for _, p := range prefixes {
		a, err := netlink.ParseAddr(p)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(p, ":") {
			a.Flags = unix.IFA_F_NODAD
		}
		if err := netlink.AddrAdd(link, a); err != nil {
			t.Fatalf("add %s: %v", p, err)
		}
	}
}

// inside runs f on a thread of its own in the namespace, and waits for it.
func (p *place) inside(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // the thread ends with the goroutine
		if err := netns.Set(p.namespace); err != nil {
			panic(err)
		}
		f()
	}()
	<-done
}

// pod adds a pod with servers on TCP and UDP.
func (n *topology) pod() *place {
	i := n.places + 1
	p := n.add(fmt.Sprintf("pod%d", i), fmt.Sprintf("10.1.%d.", i), fmt.Sprintf("fd01:%d::", i))
	p.inside(func() { serve(n.t, p.name) })
	return p
}

func (n *topology) outsider() *place {
	return n.add("outsider", "192.0.2.", "2001:db8::")
}

func (n *topology) add(name, net4, net6 string) *place {
	n.t.Helper()
	n.places++
	p := &place{name: name, four: netip.MustParseAddr(net4 + "2"), six: netip.MustParseAddr(net6 + "2")}
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		err := unix.Unshare(unix.CLONE_NEWNET)
		if err == nil {
			p.namespace, err = netns.Get()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		n.t.Fatalf("namespace of %s: %v", name, err)
	}
	n.t.Cleanup(func() { p.namespace.Close() })
	device := fmt.Sprintf("veth%d", n.places)
	veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: device}, PeerName: "eth0", PeerNamespace: netlink.NsFd(int(p.namespace))}
	if err := netlink.LinkAdd(veth); err != nil {
		n.t.Fatalf("veth of %s: %v", name, err)
	}
	addTo(n.t, setUp(n.t, device), net4+"1/24", net6+"1/64")
	p.inside(func() {
		setUp(n.t, "lo")
		eth := setUp(n.t, "eth0")
		addTo(n.t, eth, net4+"2/24", net6+"2/64")
		for _, gateway := range []string{net4 + "1", net6 + "1"} {
			route := &netlink.Route{LinkIndex: eth.Attrs().Index, Gw: net.ParseIP(gateway)}
			if err := netlink.RouteAdd(route); err != nil {
				n.t.Errorf("route of %s: %v", name, err)
			}
		}
	})
	return p
}

// serve answers each line or packet with the server's name and the source that
// it sees.
func serve(t *testing.T, name string) {
	l, err := net.Listen("tcp", fmt.Sprintf(":%d", serverPort))
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	u, err := net.ListenPacket("udp", fmt.Sprintf(":%d", serverPort))
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	t.Cleanup(func() { l.Close(); u.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				for s := bufio.NewScanner(c); s.Scan(); {
					if s.Text() == "later" {
						time.Sleep(later)
					}
					fmt.Fprintf(c, "%s %s\n", name, c.RemoteAddr())
				}
			}()
		}
	}()
	go func() {
		buffer := make([]byte, 1500)
		for {
			_, from, err := u.ReadFrom(buffer)
			if err != nil {
				return
			}
			fmt.Fprintf(packetTo{u, from}, "%s %s\n", name, from)
		}
	}()
}

type packetTo struct {
	net.PacketConn
	to net.Addr
}

func (p packetTo) Write(b []byte) (int, error) { return p.WriteTo(b, p.to) }

// connect opens a connection from the place.
func (p *place) connect(network string, to netip.AddrPort, limit time.Duration) (c net.Conn, err error) {
	p.inside(func() { c, err = (&net.Dialer{Timeout: limit}).Dial(network, to.String()) })
	return c, err
}

// ask sends a line and returns the server's name and the source that it saw.
func ask(c net.Conn, limit time.Duration) (name string, source netip.Addr, err error) {
	return askFor(c, "now", limit)
}

func askFor(c net.Conn, what string, limit time.Duration) (name string, source netip.Addr, err error) {
	if err := c.SetDeadline(time.Now().Add(limit)); err != nil {
		return "", source, err
	}
	if _, err := fmt.Fprintln(c, what); err != nil {
		return "", source, err
	}
	line, err := bufio.NewReader(c).ReadString('\n')
	if err != nil {
		return "", source, err
	}
	name, seen, _ := strings.Cut(strings.TrimSpace(line), " ")
	from, err := netip.ParseAddrPort(seen)
	return name, from.Addr().Unmap(), err
}

// askOnce connects, asks and closes.
func (p *place) askOnce(network string, to netip.AddrPort, limit time.Duration) (string, netip.Addr, error) {
	c, err := p.connect(network, to, limit)
	if err != nil {
		return "", netip.Addr{}, err
	}
	defer c.Close()
	return ask(c, limit)
}

// services makes one virtual server for each family and protocol on port 80.
func services(scheduler string, weights map[*place]uint32) []ipvs.Service {
	var all []ipvs.Service
	for _, vip := range []netip.Addr{vip4, vip6} {
		for _, p := range []ipvs.Protocol{ipvs.TCP, ipvs.UDP} {
			s := ipvs.Service{Address: vip, Port: 80, Protocol: p, Scheduler: scheduler}
			for pod, w := range weights {
				s.Destinations = append(s.Destinations, ipvs.Destination{Address: pod.address(vip), Port: serverPort, Weight: w})
			}
			ipvs.Stagger("node", s.Destinations)
			all = append(all, s)
		}
	}
	return all
}

// address returns the place's address of the family of vip.
func (p *place) address(vip netip.Addr) netip.Addr {
	if vip.Is6() {
		return p.six
	}
	return p.four
}

// bring does what the agent does in a period.
func (n *topology) bring(want []ipvs.Service) {
	n.t.Helper()
	ctx := context.Background()
	d := Desired{PodCIDRs: podCIDRs}
	for _, s := range want {
		d.Services = append(d.Services, s.Key())
		for _, e := range s.Destinations {
			d.Endpoints = append(d.Endpoints, e.Address)
		}
	}
	if err := n.host.Prepare(ctx, d); err != nil {
		n.t.Fatal(err)
	}
	n.write(want)
	if err := n.host.Bind(ctx, d); err != nil {
		n.t.Fatal(err)
	}
}

// write changes the virtual servers alone.
func (n *topology) write(want []ipvs.Service) {
	n.t.Helper()
	var ops []ipvs.Op
	ops, n.drain = ipvs.Plan(n.dump(), want, func(ipvs.Key) bool { return true }, time.Now(), n.drain)
	r, err := n.table.Apply(context.Background(), ops)
	if err != nil || len(r.Failed) != 0 {
		n.t.Fatalf("apply: %v, %v", err, r.Failed)
	}
}

func (n *topology) dump() []ipvs.Service {
	n.t.Helper()
	have, err := n.table.Dump(context.Background())
	if err != nil {
		n.t.Fatal(err)
	}
	return have
}

// destination returns what the kernel has of a pod behind 10.96.0.1:80/TCP.
func (n *topology) destination(p *place) (ipvs.Destination, bool) {
	n.t.Helper()
	for _, s := range n.dump() {
		for _, d := range s.Destinations {
			if s.Key() == (ipvs.Key{Address: vip4, Port: 80, Protocol: ipvs.TCP}) && d.Address == p.four {
				return d, true
			}
		}
	}
	return ipvs.Destination{}, false
}

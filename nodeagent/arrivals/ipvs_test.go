// SPDX-License-Identifier: Apache-2.0

package arrivals

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/edgeweir/weir/internal/testenv"
)

// ipvsNode is a node that balances the virtual addresses over two pods by IPVS,
// which are also clients, beside a client on a wire.
type ipvsNode struct {
	node, client *namespace
	pods         []*namespace
}

// newIPVSNode masquerades all that came for a virtual address, so that hairpin
// and node-local connections find their way back.
func newIPVSNode(t *testing.T) *ipvsNode {
	t.Helper()
	testenv.Require(t, testenv.Root, testenv.BTF, testenv.IPVS, testenv.NFTables)
	n := &ipvsNode{}
	n.node, n.client = newWire(t)
	n.node.run(`
		sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1 net.ipv4.vs.conntrack=1 net.ipv4.vs.conn_reuse_mode=1`)
	n.node.nft(`table inet masq { chain post { type nat hook postrouting priority srcnat;
		ct original ip daddr ` + vip4 + ` masquerade
		ct original ip6 daddr ` + vip6 + ` masquerade; }; }`)
	for i := 1; i <= 2; i++ {
		n.addPod(t, i)
	}
	var servers strings.Builder
	for _, kind := range []string{"-t", "-u", "--sctp-service"} {
		for _, vip := range []string{vip4, "[" + vip6 + "]"} {
			fmt.Fprintf(&servers, "ipvsadm -A %s %s:80 -s rr\n", kind, vip)
			for i := range n.pods {
				pod := map[bool]string{true: "10.1.0.%d", false: "[fd00:1::%d]"}[vip == vip4]
				fmt.Fprintf(&servers, "ipvsadm -a %s %s:80 -r "+pod+":8080 -m\n", kind, vip, i+1)
			}
		}
	}
	n.node.run(servers.String())
	return n
}

func (n *ipvsNode) addPod(t *testing.T, i int) {
	t.Helper()
	pod := newNamespace(t)
	n.node.run(fmt.Sprintf(`
		ip link add pod%d type veth peer name eth0 netns PEER
		ip link set pod%d up
		ip addr add 10.1.0.254/32 dev pod%d
		ip addr add fe80::1/64 dev pod%d nodad
		ip route add 10.1.0.%d dev pod%d
		ip route add fd00:1::%d dev pod%d`, i, i, i, i, i, i, i, i), pod)
	pod.run(fmt.Sprintf(`
		ip addr add 10.1.0.%d/32 dev eth0
		ip addr add fd00:1::%d/128 dev eth0 nodad
		ip addr add fe80::2/64 dev eth0 nodad
		ip link set eth0 up
		ip route add 10.1.0.254 dev eth0
		ip route add default via 10.1.0.254 dev eth0
		ip route add default via fe80::1 dev eth0`, i, i))
	pod.serve("[::]:8080")
	n.pods = append(n.pods, pod)
}

// connections reads IPVS's own counts of connections by virtual address, which
// the kernel renews every 2 s.
func (n *ipvsNode) connections() map[string]uint64 {
	n.node.t.Helper()
	sums := map[string]uint64{}
	for _, line := range strings.Split(n.node.run("ipvsadm -Ln --stats --exact"), "\n") {
		words := strings.Fields(line)
		if len(words) < 3 || words[0] != "TCP" && words[0] != "UDP" && words[0] != "SCTP" {
			continue
		}
		count, err := strconv.ParseUint(words[2], 10, 64)
		if err != nil {
			n.node.t.Fatalf("ipvsadm: %q: %v", line, err)
		}
		address, err := netip.ParseAddrPort(words[1])
		if err != nil {
			n.node.t.Fatalf("ipvsadm: %q: %v", line, err)
		}
		sums[map[string]string{vip4: "web4", vip6: "web6"}[address.Addr().String()]] += count
	}
	return sums
}

// wantConnections waits for IPVS to say so.
func (n *ipvsNode) wantConnections(want map[string]uint64) {
	n.node.t.Helper()
	var got map[string]uint64
	for range 25 {
		if got = n.connections(); fmt.Sprint(got) == fmt.Sprint(want) {
			return
		}
		time.Sleep(200 * time.Millisecond)
	}
	n.node.t.Errorf("IPVS counted %v, want %v", got, want)
}

func byService(rows map[rowName]uint64) map[string]uint64 {
	sums := map[string]uint64{}
	for row, tasks := range rows {
		sums[row.service] += tasks
	}
	return sums
}

// What eBPF counts, what IPVS counts and what the clients did are one number, for
// each kind of client and traffic. Source ports are not used again.
func TestCountsEqualIPVS(t *testing.T) {
	n := newIPVSNode(t)
	c := n.node.open(Options{Dir: bpffs(t)})
	if c.Attachment() != Netfilter {
		t.Fatalf("attached by %s", c.Attachment())
	}
	track(t, c)
	want := map[rowName]uint64{}
	check := func(what string, more map[rowName]uint64) {
		t.Helper()
		for row, tasks := range more {
			if tasks == 0 {
				t.Errorf("%s: %v: no client got through", what, row)
			}
			want[row] += tasks
		}
		t.Logf("%s: %v", what, more)
		wantRows(t, c, maps.Clone(want))
		n.wantConnections(byService(want))
	}
	a4, a6 := vip4+":80", "["+vip6+"]:80"
	pod4, pod6 := rowName{"web4", OriginOther}, rowName{"web6", OriginOther}
	self4, self6 := rowName{"web4", OriginSelf}, rowName{"web6", OriginSelf}
	check("TCP from outside", map[rowName]uint64{web4: n.client.connect(60, a4), web6: n.client.connect(60, a6)})
	check("UDP from outside", map[rowName]uint64{web4: n.client.send(40, 3, 100, a4), web6: n.client.send(40, 3, 100, a6)})
	check("fragments", map[rowName]uint64{web4: n.client.send(10, 2, 4000, a4), web6: n.client.send(10, 2, 4000, a6)})
	// Every second connection of a pod comes back to itself.
	check("TCP from pods", map[rowName]uint64{pod4: n.pods[0].connect(20, a4) + n.pods[1].connect(20, a4), pod6: n.pods[0].connect(20, a6) + n.pods[1].connect(20, a6)})
	check("UDP from a pod", map[rowName]uint64{pod4: n.pods[0].send(20, 2, 2000, a4), pod6: n.pods[0].send(20, 2, 2000, a6)})
	check("TCP from the node", map[rowName]uint64{self4: n.node.connect(20, a4), self6: n.node.connect(20, a6)})
	check("UDP from the node", map[rowName]uint64{self4: n.node.send(20, 2, 3000, a4), self6: n.node.send(20, 2, 3000, a6)})
	n.client.inject(
		packet{from: netip.MustParseAddrPort(client4 + ":99"), to: service4, protocol: 132, chunk: chunkInit, token: 5},
		packet{from: netip.MustParseAddrPort("[" + client6 + "]:99"), to: service6, protocol: 132, chunk: chunkInit, token: 5})
	check("SCTP", map[rowName]uint64{web4: 1, web6: 1})
	check("retransmitted SYNs", n.connectThroughLoss(t, c))
}

// connectThroughLoss connects while the pods' SYN-ACKs are lost at first.
func (n *ipvsNode) connectThroughLoss(t *testing.T, c *Counter) map[rowName]uint64 {
	t.Helper()
	before, err := c.Stats(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for _, pod := range n.pods {
		pod.nft(`table inet lossy { chain out { type filter hook output priority 0; tcp flags & (syn|ack) == syn|ack drop; }; }`)
	}
	var wait sync.WaitGroup
	var made [2]uint64
	for i, address := range []string{vip4 + ":80", "[" + vip6 + "]:80"} {
		wait.Go(func() { made[i] = n.client.connect(1, address) })
	}
	time.Sleep(1500 * time.Millisecond)
	for _, pod := range n.pods {
		pod.nft(`delete table inet lossy`)
	}
	wait.Wait()
	after, err := c.Stats(context.Background())
	if err != nil || after.Repeated < before.Repeated+2 {
		t.Errorf("repeated %d before, %d after, %v: no SYN came again", before.Repeated, after.Repeated, err)
	}
	return map[rowName]uint64{web4: made[0], web6: made[1]}
}

// A client that uses its port again while IPVS still remembers the connection
// makes a new task each time. IPVS schedules and counts it anew with
// conn_reuse_mode=1, and sends it the old way, uncounted, with 0.
func TestReusedPortBesideIPVS(t *testing.T) {
	const times = 4
	for mode, wantIPVS := range map[int]uint64{1: times, 0: 1} {
		t.Run(fmt.Sprintf("conn_reuse_mode=%d", mode), func(t *testing.T) {
			n := newIPVSNode(t)
			n.node.run(fmt.Sprintf("sysctl -qw net.ipv4.vs.conn_reuse_mode=%d", mode))
			c := n.node.open(Options{Dir: bpffs(t)})
			track(t, c)
			var made uint64
			n.client.do(func() {
				for range times {
					made += connectFrom(t, client4+":7777", vip4+":80")
				}
			})
			if made != times {
				t.Fatalf("%d of %d connections came about", made, times)
			}
			wantRows(t, c, map[rowName]uint64{web4: times})
			n.wantConnections(map[string]uint64{"web4": wantIPVS, "web6": 0})
		})
	}
}

// connectFrom opens a connection from a given port and resets it.
func connectFrom(t *testing.T, from, to string) uint64 {
	local, err := net.ResolveTCPAddr("tcp", from)
	if err != nil {
		t.Error(err)
		return 0
	}
	dialer := net.Dialer{LocalAddr: local, Timeout: 10 * time.Second, Control: func(_, _ string, raw syscall.RawConn) error {
		return raw.Control(func(fd uintptr) { unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1) })
	}}
	c, err := dialer.Dial("tcp", to)
	if err != nil {
		t.Errorf("dial: %v", err)
		return 0
	}
	defer c.Close()
	if err := c.(*net.TCPConn).SetLinger(0); err != nil {
		t.Error(err)
	}
	return 1
}

// A UDP flow is a new task after the timeout that IPVS has, and for both.
func TestUDPTimeoutAsIPVS(t *testing.T) {
	n := newIPVSNode(t)
	n.node.run("ipvsadm --set 0 0 5")
	c := n.node.open(Options{Dir: bpffs(t), UDPTimeout: 5 * time.Second})
	track(t, c)
	n.client.do(func() {
		conn, err := net.Dial("udp", vip4+":80")
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		for _, pause := range []time.Duration{0, time.Second, time.Second, 9 * time.Second, time.Second} {
			time.Sleep(pause)
			if _, err := conn.Write([]byte("x")); err != nil {
				t.Error(err)
			}
		}
	})
	wantRows(t, c, map[rowName]uint64{web4: 2})
	n.wantConnections(map[string]uint64{"web4": 2, "web6": 0})
}

// Where tc counts, IPVS's count less the tc count is what the node's own clients
// did.
func TestTCMissesLocalClientsOnly(t *testing.T) {
	for _, way := range []Attachment{TCX, Clsact} {
		t.Run(string(way), func(t *testing.T) {
			n := newIPVSNode(t)
			c := n.node.open(Options{Dir: bpffs(t), Attach: string(way)})
			track(t, c)
			outside, pod, local := n.client.connect(20, vip4+":80"), n.pods[0].connect(20, vip4+":80"), n.node.connect(20, vip4+":80")
			wantRows(t, c, map[rowName]uint64{web4: outside, {"web4", OriginOther}: pod})
			n.wantConnections(map[string]uint64{"web4": outside + pod + local, "web6": 0})
		})
	}
}

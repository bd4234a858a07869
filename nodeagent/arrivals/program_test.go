// SPDX-License-Identifier: Apache-2.0

package arrivals

import (
	"net/netip"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/edgeweir/weir/bpf"
	"github.com/edgeweir/weir/internal/testenv"
)

// bench holds the programs of both objects over maps of their own, unattached:
// packets are given to them by BPF_PROG_TEST_RUN.
type bench struct {
	maps          bpf.ArrivalsMaps
	netfilter, tc *ebpf.Program
}

var (
	service4 = netip.MustParseAddrPort("10.96.0.1:80")
	service6 = netip.MustParseAddrPort("[fd00:96::1]:80")
	someone4 = netip.MustParseAddrPort("192.0.2.2:40000")
	someone6 = netip.MustParseAddrPort("[2001:db8::2]:40000")
)

func newBench(t testing.TB) *bench {
	t.Helper()
	testenv.Require(t, testenv.Root, testenv.BTF)
	var objects bpf.ArrivalsObjects
	if err := bpf.LoadArrivalsObjects(&objects, nil); err != nil {
		t.Fatalf("%+v", err)
	}
	t.Cleanup(func() { objects.Close() })
	b := &bench{maps: objects.ArrivalsMaps, netfilter: objects.ArrivalsIn}
	spec, err := bpf.LoadArrivalsTC()
	if err != nil {
		t.Fatal(err)
	}
	s := &store{all: map[string]*ebpf.Map{"arrivals": b.maps.Arrivals, "flows": b.maps.Flows, "names": b.maps.Names,
		"origins": b.maps.Origins, "services": b.maps.Services, "settings": b.maps.Settings, "stats": b.maps.Stats}}
	var tc bpf.ArrivalsTCPrograms
	if err := s.loadPrograms(spec, &tc); err != nil {
		t.Fatalf("%+v", err)
	}
	t.Cleanup(func() { tc.Close() })
	b.tc = tc.ArrivalsTc
	for id, address := range []netip.AddrPort{service4, service6} {
		for _, protocol := range []uint8{6, 17, 132} {
			key := bpf.ArrivalsServiceKey{Address: address.Addr().As16(), Port: address.Port(), Protocol: protocol}
			put(t, b.maps.Services, key, bpf.ArrivalsService{Id: uint32(id + 1)})
		}
	}
	s.maps = b.maps
	if err := s.setUDPTimeout(defaultUDPTimeout); err != nil {
		t.Fatal(err)
	}
	return b
}

func put(t testing.TB, m *ebpf.Map, key, value any) {
	t.Helper()
	if err := m.Put(key, value); err != nil {
		t.Fatalf("map %s: %v", m, err)
	}
}

// run says how to run the program over a packet: tc is given a link layer, and
// netfilter the start of struct nf_hook_state (hook, pf), for which the kernel
// takes LOCAL_OUT here and no less than an Ethernet frame has.
func (b *bench) run(program *ebpf.Program, raw []byte) *ebpf.RunOptions {
	ipv6 := raw[0]>>4 == 6
	if program == b.tc {
		kind := []byte{0x08, 0x00}
		if ipv6 {
			kind = []byte{0x86, 0xdd}
		}
		return &ebpf.RunOptions{Data: append(append(make([]byte, 12), kind...), raw...)}
	}
	state := [8]uint8{3, unix.NFPROTO_IPV4}
	if ipv6 {
		state[1] = unix.NFPROTO_IPV6
	}
	return &ebpf.RunOptions{Data: append(raw, make([]byte, max(0, 34-len(raw)))...), Context: state}
}

// outcome is what a packet counted as.
type outcome struct{ tasks, repeated, fragments, malformed uint64 }

// give lets a packet come to the program.
func (b *bench) give(t testing.TB, program *ebpf.Program, raw []byte) outcome {
	t.Helper()
	before := b.counts(t)
	verdict, err := program.Run(b.run(program, raw))
	if err != nil {
		t.Fatalf("%s: %v", program, err)
	}
	if accept := map[*ebpf.Program]uint32{b.netfilter: 1, b.tc: ^uint32(0)}[program]; verdict != accept {
		t.Fatalf("%s: verdict %d, want %d", program, verdict, accept)
	}
	after := b.counts(t)
	return outcome{after.tasks - before.tasks, after.repeated - before.repeated, after.fragments - before.fragments, after.malformed - before.malformed}
}

func (b *bench) counts(t testing.TB) (o outcome) {
	t.Helper()
	rows, err := dumpRows(b.maps.Arrivals)
	if err != nil {
		t.Fatal(err)
	}
	for _, tasks := range rows {
		o.tasks += tasks
	}
	var perCPU []bpf.ArrivalsStats
	if err := b.maps.Stats.Lookup(uint32(0), &perCPU); err != nil {
		t.Fatal(err)
	}
	for _, cpu := range perCPU {
		o.repeated += cpu.Repeated
		o.fragments += cpu.Fragments
		o.malformed += cpu.Malformed
	}
	return o
}

var (
	oneTask   = outcome{tasks: 1}
	nothing   = outcome{}
	repeat    = outcome{repeated: 1}
	fragment  = outcome{fragments: 1}
	malformed = outcome{malformed: 1}
)

func TestPacketOutcomes(t *testing.T) {
	b := newBench(t)
	syn := packet{from: someone4, to: service4, protocol: 6, flags: flagSYN, token: 1}
	syn6 := packet{from: someone6, to: service6, protocol: 6, flags: flagSYN, token: 1}
	udp := packet{from: someone4, to: service4, protocol: 17, payload: 4}
	udp6 := packet{from: someone6, to: service6, protocol: 17}
	sctp := packet{from: someone4, to: service4, protocol: 132, chunk: chunkInit, token: 9}
	with := func(p packet, change func(*packet)) packet { change(&p); return p }
	cases := []struct {
		name   string
		packet packet
		want   outcome
	}{
		{"SYN", syn, oneTask},
		{"SYN again", syn, repeat},
		{"SYN with another sequence number on the same tuple", with(syn, func(p *packet) { p.token = 2 }), oneTask},
		{"SYN with ECN", with(syn, func(p *packet) { p.flags |= flagECE | flagCWR; p.token = 3 }), oneTask},
		{"SYN with IPv4 options", with(syn, func(p *packet) { p.options = 40; p.token = 4 }), oneTask},
		{"SYN with data", with(syn, func(p *packet) { p.payload = 100; p.token = 5 }), oneTask},
		{"first fragment of a SYN", with(syn, func(p *packet) { p.more = true; p.token = 6 }), oneTask},
		{"later fragment", with(syn, func(p *packet) { p.fragment = 3; p.token = 7 }), fragment},
		{"SYN to another port", with(syn, func(p *packet) { p.to = netip.AddrPortFrom(p.to.Addr(), 81) }), nothing},
		{"SYN to another address", with(syn, func(p *packet) { p.to = netip.MustParseAddrPort("10.96.0.2:80") }), nothing},
		{"SYN+ACK", with(syn, func(p *packet) { p.flags |= flagACK; p.token = 8 }), nothing},
		{"ACK", with(syn, func(p *packet) { p.flags = flagACK }), nothing},
		{"RST", with(syn, func(p *packet) { p.flags = flagRST }), nothing},
		{"SYN+RST", with(syn, func(p *packet) { p.flags |= flagRST }), malformed},
		{"SYN+FIN", with(syn, func(p *packet) { p.flags |= flagFIN }), malformed},
		{"SYN cut short", with(syn, func(p *packet) { p.cut = 1 }), malformed},
		{"SYN over IPv6", syn6, oneTask},
		{"SYN over IPv6 again", syn6, repeat},
		{"SYN behind extension headers", with(syn6, func(p *packet) { p.token = 2; p.extensions = []uint8{0, 60, 43, 51} }), oneTask},
		{"SYN behind seven extension headers", with(syn6, func(p *packet) { p.token = 3; p.extensions = []uint8{0, 60, 60, 60, 60, 60, 60} }), oneTask},
		{"SYN behind nine extension headers", with(syn6, func(p *packet) { p.token = 4; p.extensions = []uint8{0, 60, 60, 60, 60, 60, 60, 60, 60} }), malformed},
		{"first fragment over IPv6", with(syn6, func(p *packet) { p.token = 5; p.extensions = []uint8{44}; p.more = true }), oneTask},
		{"later fragment over IPv6", with(syn6, func(p *packet) { p.token = 6; p.extensions = []uint8{44}; p.fragment = 4 }), fragment},
		{"no next header", with(syn6, func(p *packet) { p.protocol = 59 }), nothing},
		{"extension header cut short", with(syn6, func(p *packet) { p.protocol = 59; p.extensions = []uint8{60}; p.cut = 20 }), malformed},
		{"UDP", udp, oneTask},
		{"UDP again", udp, nothing},
		{"UDP from another port", with(udp, func(p *packet) { p.from = netip.MustParseAddrPort("192.0.2.2:40001") }), oneTask},
		{"UDP cut short", with(udp, func(p *packet) { p.options = 40; p.payload = 0; p.cut = 1 }), malformed},
		{"UDP over IPv6", udp6, oneTask},
		{"UDP over IPv6 again", udp6, nothing},
		{"SCTP INIT", sctp, oneTask},
		{"SCTP INIT again", sctp, repeat},
		{"SCTP INIT with another tag", with(sctp, func(p *packet) { p.token = 10 }), oneTask},
		{"SCTP INIT with a verification tag", with(sctp, func(p *packet) { p.tag = 1; p.token = 11 }), malformed},
		{"SCTP data", with(sctp, func(p *packet) { p.chunk = 0; p.tag = 1 }), nothing},
		{"ICMP", packet{from: someone4, to: service4, protocol: 1}, nothing},
	}
	for _, program := range []*ebpf.Program{b.netfilter, b.tc} {
		forgetFlows(t, b.maps.Flows)
		for _, c := range cases {
			if got := b.give(t, program, c.packet.bytes()); got != c.want {
				t.Errorf("%s: %s: got %+v, want %+v", program, c.name, got, c.want)
			}
		}
	}
}

func forgetFlows(t testing.TB, m *ebpf.Map) {
	t.Helper()
	var key bpf.ArrivalsFlowKey
	for m.NextKey(nil, &key) == nil {
		if err := m.Delete(key); err != nil {
			t.Fatal(err)
		}
	}
}

// The negative control of the flow memory: without it a retransmission counts.
func TestRetransmissionCountsWithoutMemory(t *testing.T) {
	b := newBench(t)
	syn := packet{from: someone4, to: service4, protocol: 6, flags: flagSYN, token: 1}.bytes()
	for range 3 {
		if got := b.give(t, b.netfilter, syn); got != oneTask {
			t.Fatalf("got %+v, want a task each time", got)
		}
		forgetFlows(t, b.maps.Flows)
	}
}

// A task past its lifetime counts again, once, and one within it does not.
func TestFlowLifetime(t *testing.T) {
	b := newBench(t)
	var set bpf.ArrivalsSettings
	if err := b.maps.Settings.Lookup(uint32(0), &set); err != nil {
		t.Fatal(err)
	}
	for _, p := range []packet{
		{from: someone4, to: service4, protocol: 17},
		{from: someone4, to: service4, protocol: 6, flags: flagSYN, token: 1},
	} {
		lifetime, again := set.UdpTimeout, nothing
		if p.protocol == 6 {
			lifetime, again = set.HandshakeTimeout, repeat
		}
		if got := b.give(t, b.netfilter, p.bytes()); got != oneTask {
			t.Fatalf("first: %+v", got)
		}
		age(t, b.maps.Flows, lifetime*9/10)
		if got := b.give(t, b.netfilter, p.bytes()); got != again {
			t.Errorf("protocol %d within its lifetime: %+v", p.protocol, got)
		}
		age(t, b.maps.Flows, lifetime)
		if got := b.give(t, b.netfilter, p.bytes()); got != oneTask {
			t.Errorf("protocol %d after its lifetime: %+v", p.protocol, got)
		}
		if got := b.give(t, b.netfilter, p.bytes()); got != again {
			t.Errorf("protocol %d right after: %+v", p.protocol, got)
		}
	}
}

// age moves the last appearance of all flows back.
func age(t testing.TB, m *ebpf.Map, by uint64) {
	t.Helper()
	flows, err := dump[bpf.ArrivalsFlowKey, bpf.ArrivalsFlow](m)
	if err != nil {
		t.Fatal(err)
	}
	for key, flow := range flows {
		flow.Seen -= by
		put(t, m, key, flow)
	}
}

// Whatever bytes come, both programs accept them and agree on what they are.
func TestProgramsAgreeOnAnyPacket(t *testing.T) {
	b := newBench(t)
	rapid.Check(t, func(r *rapid.T) {
		p := packet{
			from: someone4, to: service4,
			protocol: rapid.SampledFrom([]uint8{6, 17, 132, 1, 59}).Draw(r, "protocol"),
			flags:    rapid.Uint8().Draw(r, "flags"),
			token:    rapid.Uint32().Draw(r, "token"),
			chunk:    rapid.Uint8Range(0, 2).Draw(r, "chunk"),
			options:  4 * rapid.IntRange(0, 10).Draw(r, "options"),
			payload:  rapid.IntRange(0, 64).Draw(r, "payload"),
			fragment: rapid.SampledFrom([]uint16{0, 0, 0, 5}).Draw(r, "fragment"),
		}
		if rapid.Bool().Draw(r, "ipv6") {
			p.from, p.to, p.options = someone6, service6, 0
			p.extensions = rapid.SliceOfN(rapid.SampledFrom([]uint8{0, 43, 44, 51, 60}), 0, 10).Draw(r, "extensions")
		}
		raw := p.bytes()
		for range rapid.IntRange(0, 3).Draw(r, "flips") {
			raw[rapid.IntRange(1, len(raw)-1).Draw(r, "at")] = rapid.Uint8().Draw(r, "to")
		}
		raw = raw[:max(rapid.IntRange(0, len(raw)).Draw(r, "length"), min(40, len(raw)))]
		forgetFlows(t, b.maps.Flows)
		first := b.give(t, b.netfilter, raw)
		forgetFlows(t, b.maps.Flows)
		if second := b.give(t, b.tc, raw); second != first {
			r.Fatalf("netfilter %+v, tc %+v for %x", first, second, raw)
		}
	})
}

// SPDX-License-Identifier: Apache-2.0

package arrivals

import (
	"net/netip"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/edgeweir/weir/bpf"
)

// BenchmarkPacket gives nanoseconds per packet in the kernel, by
// BPF_PROG_TEST_RUN. Compare with empty: the rest is the kernel's own.
func BenchmarkPacket(b *testing.B) {
	bench := newBench(b)
	bench.fill(b)
	ack := packet{from: someone4, to: service4, protocol: 6, flags: flagACK, token: 1}
	syn, other, udp := ack, ack, ack
	syn.flags, other.flags = flagSYN, flagSYN
	other.to = netip.MustParseAddrPort("10.96.0.1:81")
	udp.protocol = 17
	ack6, syn6 := ack, syn
	ack6.from, ack6.to, syn6.from, syn6.to = someone6, service6, someone6, service6
	empty := emptyProgram(b, ebpf.Netfilter, ebpf.AttachNetfilter, 1)
	for _, c := range []struct {
		name    string
		program *ebpf.Program
		packet  packet
	}{
		{"netfilter/empty", empty, ack}, {"netfilter/non-SYN", bench.netfilter, ack},
		{"netfilter/unknown-SYN", bench.netfilter, other}, {"netfilter/known-SYN", bench.netfilter, syn},
		{"netfilter/known-UDP", bench.netfilter, udp},
		{"tc/empty", emptyProgram(b, ebpf.SchedCLS, 0, -1), ack}, {"tc/non-SYN", bench.tc, ack}, {"tc/non-SYN6", bench.tc, ack6},
		{"tc/known-SYN", bench.tc, syn}, {"tc/known-SYN6", bench.tc, syn6},
	} {
		b.Run(c.name, func(b *testing.B) { measure(b, c.program, bench.run(c.program, c.packet.bytes()).Data) })
	}
}

// BenchmarkNewSYN gives each run a sequence number of its own, by a program that
// writes it and calls the counting one, or an empty one to compare with. Only tc
// programs may write; what follows the reading of the packet is the same.
func BenchmarkNewSYN(b *testing.B) {
	bench := newBench(b)
	bench.fill(b)
	frame := bench.run(bench.tc, packet{from: someone4, to: service4, protocol: 6, flags: flagSYN}.bytes()).Data
	for name, program := range map[string]*ebpf.Program{"empty": emptyProgram(b, ebpf.SchedCLS, 0, -1), "new-SYN": bench.tc} {
		b.Run(name, func(b *testing.B) {
			renumber := renumberProgram(b, program)
			before := bench.counts(b)
			measure(b, renumber, frame)
			if after := bench.counts(b); program == bench.tc && after.tasks-before.tasks < uint64(b.N)*99/100 {
				b.Fatalf("%d tasks of %d runs: not what was to be measured", after.tasks-before.tasks, b.N)
			}
		})
	}
}

// fill gives the maps what a middling node has: 500 services, 500 nodes.
func (bench *bench) fill(b *testing.B) {
	for i := range 500 {
		address := netip.AddrFrom4([4]byte{10, 97, byte(i >> 8), byte(i)})
		put(b, bench.maps.Services, bpf.ArrivalsServiceKey{Address: address.As16(), Port: 80, Protocol: 6}, bpf.ArrivalsService{Id: uint32(i + 10)})
		prefix := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 244, byte(i), 0}), 24-i/256)
		put(b, bench.maps.Origins, originKey(prefix), bpf.ArrivalsOrigin{Id: uint32(i + firstOriginID)})
	}
	put(b, bench.maps.Origins, originKey(netip.MustParsePrefix("192.0.2.0/24")), bpf.ArrivalsOrigin{Id: 1000})
}

// measure reports the kernel's own mean time of a run. It is given no context: to
// netfilter all is IPv4 then.
func measure(b *testing.B, program *ebpf.Program, data []byte) {
	_, mean, err := program.Benchmark(data, b.N, nil)
	if err != nil {
		b.Fatalf("%s: %v", program, err)
	}
	b.ReportMetric(float64(mean.Nanoseconds()), "ns/packet")
	b.ReportMetric(0, "ns/op")
}

func emptyProgram(b *testing.B, kind ebpf.ProgramType, attach ebpf.AttachType, verdict int32) *ebpf.Program {
	b.Helper()
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: kind, AttachType: attach, License: "Dual BSD/GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, verdict), asm.Return()},
	})
	if err != nil {
		b.Fatalf("empty program: %v", err)
	}
	b.Cleanup(func() { p.Close() })
	return p
}

// renumberProgram writes a counter's next value over TCP's sequence number (in
// an Ethernet frame with an IPv4 header of 20 bytes) and tail calls the program.
func renumberProgram(b *testing.B, program *ebpf.Program) *ebpf.Program {
	b.Helper()
	counter := newMap(b, &ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 4, MaxEntries: 1})
	next := newMap(b, &ebpf.MapSpec{Type: ebpf.ProgramArray, KeySize: 4, ValueSize: 4, MaxEntries: 1})
	put(b, next, uint32(0), program)
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.SchedCLS, License: "Dual BSD/GPL",
		Instructions: asm.Instructions{
			asm.Mov.Reg(asm.R6, asm.R1),
			asm.LoadMapValue(asm.R3, counter.FD(), 0),
			asm.LoadMem(asm.R0, asm.R3, 0, asm.Word),
			asm.Add.Imm(asm.R0, 1),
			asm.StoreMem(asm.R3, 0, asm.R0, asm.Word),
			asm.Mov.Imm(asm.R2, 14+20+4),
			asm.Mov.Imm(asm.R4, 4),
			asm.Mov.Imm(asm.R5, 0),
			asm.FnSkbStoreBytes.Call(),
			asm.Mov.Reg(asm.R1, asm.R6),
			asm.LoadMapPtr(asm.R2, next.FD()),
			asm.Mov.Imm(asm.R3, 0),
			asm.FnTailCall.Call(),
			asm.Mov.Imm(asm.R0, 2),
			asm.Return(),
		},
	})
	if err != nil {
		b.Fatalf("renumbering program: %+v", err)
	}
	b.Cleanup(func() { p.Close() })
	return p
}

func newMap(b *testing.B, spec *ebpf.MapSpec) *ebpf.Map {
	b.Helper()
	m, err := ebpf.NewMap(spec)
	if err != nil {
		b.Fatalf("map: %v", err)
	}
	b.Cleanup(func() { m.Close() })
	return m
}

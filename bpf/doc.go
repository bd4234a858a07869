// SPDX-License-Identifier: Apache-2.0

// Package bpf holds the eBPF programs that count arrivals, as C, as compiled
// objects and as the Go that bpf2go generates from them. It knows maps, keys and
// programs; what they mean to a node is nodeagent/arrivals, the only importer.
//
// The C is dual BSD-2-Clause/GPL-2.0 and includes nothing but its own headers, so
// that the objects come out the same on every machine with the same clang. They
// are little endian only: no big-endian node is at hand to test on.
package bpf

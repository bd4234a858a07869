// SPDX-License-Identifier: Apache-2.0

package bpf

// The netfilter object runs on kernels of 6.4 and later, so it may use the newer
// instructions of -mcpu=v3; the tc object keeps to those of 4.14.
//
//go:generate go tool bpf2go -cc clang-19 -strip llvm-strip-19 -target bpfel -go-package bpf -cflags "-O2 -g -Wall -Werror -nostdinc -mcpu=v3" Arrivals arrivals.bpf.c
//go:generate go tool bpf2go -cc clang-19 -strip llvm-strip-19 -target bpfel -go-package bpf -no-global-types -output-stem arrivalstc -cflags "-O2 -g -Wall -Werror -nostdinc -mcpu=v2" ArrivalsTC arrivals_tc.bpf.c

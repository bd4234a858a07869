// SPDX-License-Identifier: Apache-2.0

// Package host prepares a node for the virtual servers that it owns: the
// addresses on dummy device weir0, an nftables table of our own, and sysctls.
// What has to be there is computed by pure functions (state.go, rules.go); a
// Host compares it with the kernel and writes the difference, in the network
// namespace of the calling thread.
//
// Answers of pods have to pass the node that balanced the connection. Where
// pods hang on a bridge, answers between two of them pass only with
// net.bridge.bridge-nf-call-iptables=1.
package host

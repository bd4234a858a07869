// SPDX-License-Identifier: Apache-2.0

// Package cluster is the vocabulary of what a cluster is declared to be: its
// nodes, its services with their addresses, and the pods behind them. It reads
// the static cluster file, the form in which Weir runs without Kubernetes; agents
// and the optimizer read the same file.
//
// A file is taken whole or not at all. Each error names file, line, field,
// value and what is allowed.
package cluster

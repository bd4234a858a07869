// SPDX-License-Identifier: Apache-2.0

// Package discovery gives the optimizer the cluster that the API server holds:
// every node, the managed Services and the pods behind them. It watches, so that
// what it costs the API server depends on changes and not on size, and tells the
// faults of objects as Events and metrics.
package discovery

// SPDX-License-Identifier: Apache-2.0

// Package wire holds the messages that Weir's parts exchange through Redis:
// what each is, how it is encoded, and what makes one valid. Values are
// versioned JSON that a person can read with redis-cli. A reader accepts the
// version before its own and the one after it, so that parts can be upgraded
// one at a time.
//
// It imports the standard library only and knows neither Redis nor Kubernetes.
package wire

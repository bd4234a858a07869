// SPDX-License-Identifier: Apache-2.0

// Package store keeps Weir's messages in Redis. It is the only package that
// knows Redis: its keys, lifetimes and the script that refuses writes of a
// leader that has been replaced.
//
// Every key of a cluster has the form weir:{CLUSTER}:…; the braces are Redis
// Cluster's hash tag, which keeps them in one slot.
package store

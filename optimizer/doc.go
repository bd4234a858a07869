// SPDX-License-Identifier: Apache-2.0

// Package optimizer is the algorithm server: each period it reads what the
// agents counted and measured, builds a snapshot, solves dispatch and publishes
// the splits.
//
// Its core is pure: snapshot.go turns what is known into a snapshot, the models
// (package model) turn that into decisions, publish.go turns decisions into what
// has to be written. The clock, Redis and the files stand at the edges (run.go).
package optimizer

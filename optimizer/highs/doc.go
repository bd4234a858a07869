// SPDX-License-Identifier: Apache-2.0

// Package highs is a thin door to the HiGHS C API: linear, mixed-integer and convex quadratic programmes.
// It is the only package with cgo. Solve answers one Problem; a Model lives on, takes rows, columns and new
// bounds, and starts the next solve from the last basis. Every point that HiGHS returns is checked against
// its rows and bounds by this package (check.go), and "infeasible" is believed only after a second solve
// without presolve. HiGHS writes nothing to standard output.
package highs

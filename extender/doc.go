// SPDX-License-Identifier: Apache-2.0

// Package extender is the scheduler extender: it answers kube-scheduler's filter
// and prioritize calls so that pods with a directive of the optimizer land on the
// node that it chose. A pod that carries none is answered from memory, without a
// word to Redis or to the API server.
//
// A call runs through ask.go (what is asked), claim.go (which slot the pod has),
// place.go (the pure decision) and answer.go. Behind the calls, book.go keeps a
// copy of the live directives, desk.go the pods that hold a slot, and what the
// desk starts is off the calls' path: nominations, landings, letting go.
package extender

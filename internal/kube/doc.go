// SPDX-License-Identifier: Apache-2.0

// Package kube turns what the API server holds into a cluster.Cluster. A Feed
// watches the kinds of objects that a component names, keeps only the fields
// that matter and tells when contact is lost; Build is a pure function from the
// objects to the cluster; a Source joins the two and gives the cluster of the
// moment.
//
// Losing the API server changes nothing: the last objects stay, and Degraded
// says since when. An object's fault becomes a cluster.Problem and spoils
// nothing else.
package kube

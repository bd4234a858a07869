// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
)

// podsResource counts pods: a node takes a number of them.
const podsResource = "pods"

// amounts returns quantities in the units of the models: cores, bytes, counts.
// only narrows them to some resources.
func amounts(list corev1.ResourceList, only ...corev1.ResourceName) map[string]float64 {
	out := make(map[string]float64, len(list))
	for name, q := range list {
		if v := amount(name, q); v >= 0 && (len(only) == 0 || slices.Contains(only, name)) {
			out[string(name)] = v
		}
	}
	return out
}

func amount(name corev1.ResourceName, q resource.Quantity) float64 {
	if name == corev1.ResourceCPU {
		// Divided once, 3800m is 3.8 to the last digit.
		return float64(q.MilliValue()) / 1000
	}
	return q.AsApproximateFloat64()
}

// requestOf returns what the scheduler counts of a pod, in-place resizes
// included.
func requestOf(p *corev1.Pod) map[string]float64 {
	request := amounts(resourcehelper.PodRequests(p, resourcehelper.PodResourcesOptions{
		UseStatusResources: true, InPlacePodLevelResourcesVerticalScalingEnabled: true,
	}))
	request[podsResource] = 1
	return request
}

// limited are the resources that have limits.
var limited = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}

// limitOf returns a pod's limits of cpu and memory, as they are in force. Where
// a container has none, the pod has none.
func limitOf(p *corev1.Pod) map[string]float64 {
	limits := resourcehelper.PodLimits(p, resourcehelper.PodResourcesOptions{
		UseStatusResources: true, InPlacePodLevelResourcesVerticalScalingEnabled: true,
	})
	out := map[string]float64{}
	for _, name := range limited {
		if q, ok := limits[name]; ok && bounded(p, name) && !q.IsZero() {
			out[string(name)] = amount(name, q)
		}
	}
	return out
}

// bounded says whether the pod as a whole, or each of its running containers, has
// a limit.
func bounded(p *corev1.Pod, name corev1.ResourceName) bool {
	has := func(r corev1.ResourceRequirements) bool {
		_, ok := r.Limits[name]
		return ok
	}
	if p.Spec.Resources != nil && has(*p.Spec.Resources) {
		return true
	}
	unbounded := func(c corev1.Container) bool { return !has(c.Resources) }
	sidecar := func(c corev1.Container) bool {
		return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways && unbounded(c)
	}
	return !slices.ContainsFunc(p.Spec.Containers, unbounded) && !slices.ContainsFunc(p.Spec.InitContainers, sidecar)
}

// capacityOf returns what a pod can use: its limit; without one its request and
// an equal share, among the node's pods without a limit, of what no pod has
// requested (design: A_pk).
func capacityOf(request, limit map[string]float64, n *nodeState) map[string]float64 {
	capacity := map[string]float64{}
	for _, name := range limited {
		resource := string(name)
		if v, ok := limit[resource]; ok {
			capacity[resource] = v
			continue
		}
		allocatable, ok := n.Allocatable[resource]
		if !ok {
			continue
		}
		share := max(0, allocatable-n.requested[resource]) / max(1, n.unlimited[resource])
		capacity[resource] = request[resource] + share
	}
	return capacity
}

// SPDX-License-Identifier: Apache-2.0

package kube

import (
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Objects is what is known of the API server's contents.
type Objects struct {
	Nodes        []*corev1.Node
	Pods         []*corev1.Pod
	Services     []*corev1.Service
	Slices       []*discoveryv1.EndpointSlice
	ReplicaSets  []*metav1.PartialObjectMetadata
	Deployments  []*appsv1.Deployment
	StatefulSets []*appsv1.StatefulSet
	Budgets      []*policyv1.PodDisruptionBudget
	Autoscalers  []*autoscalingv2.HorizontalPodAutoscaler
	// Unread are the kinds that could not be read: that there is none of them
	// means nothing.
	Unread []Kind
}

func (o *Objects) add(object any) {
	switch v := object.(type) {
	case *corev1.Node:
		o.Nodes = append(o.Nodes, v)
	case *corev1.Pod:
		o.Pods = append(o.Pods, v)
	case *corev1.Service:
		o.Services = append(o.Services, v)
	case *discoveryv1.EndpointSlice:
		o.Slices = append(o.Slices, v)
	case *metav1.PartialObjectMetadata:
		o.ReplicaSets = append(o.ReplicaSets, v)
	case *appsv1.Deployment:
		o.Deployments = append(o.Deployments, v)
	case *appsv1.StatefulSet:
		o.StatefulSets = append(o.StatefulSets, v)
	case *policyv1.PodDisruptionBudget:
		o.Budgets = append(o.Budgets, v)
	case *autoscalingv2.HorizontalPodAutoscaler:
		o.Autoscalers = append(o.Autoscalers, v)
	}
}

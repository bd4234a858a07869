// SPDX-License-Identifier: Apache-2.0

package kube

import (
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
)

// Kind is a kind of objects that can be watched, by its resource name.
type Kind string

// The kinds.
const (
	Nodes        Kind = "nodes"
	Pods         Kind = "pods"
	Services     Kind = "services"
	Slices       Kind = "endpointslices"
	ReplicaSets  Kind = "replicasets"
	Deployments  Kind = "deployments"
	StatefulSets Kind = "statefulsets"
	Budgets      Kind = "poddisruptionbudgets"
	Autoscalers  Kind = "horizontalpodautoscalers"
)

// ManagedLabel marks the Services that Weir serves. Their EndpointSlices inherit
// it.
const ManagedLabel = "service.kubernetes.io/service-proxy-name=weir"

// group is where a kind is served, and how one object of it is decoded.
type group struct {
	version schema.GroupVersion
	object  runtime.Object
	trim    func(any) (any, error)
	// metadata asks the server for the objects' metadata alone.
	metadata bool
}

var groups = map[Kind]group{
	Nodes:        {version: corev1.SchemeGroupVersion, object: &corev1.Node{}, trim: trimmed(trimNode)},
	Pods:         {version: corev1.SchemeGroupVersion, object: &corev1.Pod{}, trim: trimmed(trimPod)},
	Services:     {version: corev1.SchemeGroupVersion, object: &corev1.Service{}, trim: trimmed(trimService)},
	Slices:       {version: discoveryv1.SchemeGroupVersion, object: &discoveryv1.EndpointSlice{}, trim: trimmed(trimSlice)},
	ReplicaSets:  {version: appsv1.SchemeGroupVersion, object: &metav1.PartialObjectMetadata{}, trim: trimmed(trimMetadata), metadata: true},
	Deployments:  {version: appsv1.SchemeGroupVersion, object: &appsv1.Deployment{}, trim: trimmed(trimDeployment)},
	StatefulSets: {version: appsv1.SchemeGroupVersion, object: &appsv1.StatefulSet{}, trim: trimmed(trimStatefulSet)},
	Budgets:      {version: policyv1.SchemeGroupVersion, object: &policyv1.PodDisruptionBudget{}, trim: trimmed(trimBudget)},
	Autoscalers:  {version: autoscalingv2.SchemeGroupVersion, object: &autoscalingv2.HorizontalPodAutoscaler{}, trim: trimmed(trimAutoscaler)},
}

// codecs decode the kinds above and no others: the scheme of the whole API would
// cost an agent some megabytes.
var codecs = serializer.NewCodecFactory(newScheme())

func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, discoveryv1.AddToScheme, appsv1.AddToScheme, policyv1.AddToScheme, autoscalingv2.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			panic(err) // two types of one name: a fault of this build
		}
	}
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	return scheme
}

// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// Objects are trimmed before they are kept, so that memory is bounded by what is
// used of them and a heartbeat changes nothing.

// trimmed makes a transform of an informer out of a function that drops fields.
func trimmed[T any](trim func(*T)) func(any) (any, error) {
	return func(object any) (any, error) {
		if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
			return gone, nil
		}
		o, ok := object.(*T)
		if !ok {
			return nil, fmt.Errorf("trim: %T: not a %T", object, new(T))
		}
		trim(o)
		return o, nil
	}
}

// Annotations that others set and Weir reads.
const (
	mirrorAnnotation      = corev1.MirrorPodAnnotationKey
	safeToEvictAnnotation = "cluster-autoscaler.kubernetes.io/safe-to-evict"
)

// trimMeta keeps of an object's metadata what it is known by, its labels and the
// annotations that Weir reads.
func trimMeta(m *metav1.ObjectMeta) {
	kept := metav1.ObjectMeta{
		Name: m.Name, Namespace: m.Namespace, UID: m.UID, ResourceVersion: m.ResourceVersion, Generation: m.Generation,
		CreationTimestamp: m.CreationTimestamp, DeletionTimestamp: m.DeletionTimestamp,
		Labels: m.Labels, OwnerReferences: m.OwnerReferences,
	}
	for name, value := range m.Annotations {
		if strings.HasPrefix(name, Prefix) || name == mirrorAnnotation || name == safeToEvictAnnotation {
			if kept.Annotations == nil {
				kept.Annotations = map[string]string{}
			}
			kept.Annotations[name] = value
		}
	}
	*m = kept
}

func trimMetadata(m *metav1.PartialObjectMetadata) {
	trimMeta(&m.ObjectMeta)
	m.Labels, m.Annotations = nil, nil
}

func trimNode(n *corev1.Node) {
	trimMeta(&n.ObjectMeta)
	var conditions []corev1.NodeCondition
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			conditions = append(conditions, corev1.NodeCondition{Type: c.Type, Status: c.Status})
		}
	}
	n.Status = corev1.NodeStatus{
		Capacity: n.Status.Capacity, Allocatable: n.Status.Allocatable, Conditions: conditions,
		Addresses: n.Status.Addresses, Images: n.Status.Images,
	}
}

func trimPod(p *corev1.Pod) {
	trimMeta(&p.ObjectMeta)
	var conditions []corev1.PodCondition
	for _, c := range p.Status.Conditions {
		switch c.Type {
		case corev1.PodReady, corev1.PodResizePending:
			conditions = append(conditions, corev1.PodCondition{Type: c.Type, Status: c.Status, Reason: c.Reason})
		}
	}
	p.Status = corev1.PodStatus{
		Phase: p.Status.Phase, PodIP: p.Status.PodIP, PodIPs: p.Status.PodIPs, Conditions: conditions,
		ContainerStatuses:     trimContainerStatuses(p.Status.ContainerStatuses),
		InitContainerStatuses: trimContainerStatuses(p.Status.InitContainerStatuses),
		Resources:             p.Status.Resources, AllocatedResources: p.Status.AllocatedResources,
	}
	trimPodSpec(&p.Spec)
}

// trimContainerStatuses keeps what an in-place resize has given.
func trimContainerStatuses(statuses []corev1.ContainerStatus) []corev1.ContainerStatus {
	var kept []corev1.ContainerStatus
	for _, s := range statuses {
		if s.Resources != nil || s.AllocatedResources != nil {
			kept = append(kept, corev1.ContainerStatus{Name: s.Name, Resources: s.Resources, AllocatedResources: s.AllocatedResources})
		}
	}
	return kept
}

// trimPodSpec keeps what places a pod.
func trimPodSpec(s *corev1.PodSpec) {
	*s = corev1.PodSpec{
		NodeName: s.NodeName, Containers: trimContainers(s.Containers), InitContainers: trimContainers(s.InitContainers),
		Volumes: trimVolumes(s.Volumes), Overhead: s.Overhead, Resources: s.Resources, HostNetwork: s.HostNetwork,
		NodeSelector: s.NodeSelector, Affinity: s.Affinity, Tolerations: s.Tolerations,
		TopologySpreadConstraints: s.TopologySpreadConstraints,
	}
}

func trimContainers(containers []corev1.Container) []corev1.Container {
	var kept []corev1.Container
	for _, c := range containers {
		kept = append(kept, corev1.Container{Name: c.Name, Image: c.Image, Resources: c.Resources, RestartPolicy: c.RestartPolicy, Ports: hostPorts(c.Ports)})
	}
	return kept
}

// hostPorts are the ports that one pod of a node can have.
func hostPorts(ports []corev1.ContainerPort) []corev1.ContainerPort {
	var kept []corev1.ContainerPort
	for _, p := range ports {
		if p.HostPort != 0 {
			kept = append(kept, p)
		}
	}
	return kept
}

// trimVolumes keeps the volumes that may hold a pod at its node.
func trimVolumes(volumes []corev1.Volume) []corev1.Volume {
	var kept []corev1.Volume
	for _, v := range volumes {
		if v.EmptyDir != nil || v.HostPath != nil || v.PersistentVolumeClaim != nil || v.Ephemeral != nil {
			kept = append(kept, corev1.Volume{Name: v.Name, VolumeSource: corev1.VolumeSource{
				EmptyDir: v.EmptyDir, HostPath: v.HostPath, PersistentVolumeClaim: v.PersistentVolumeClaim, Ephemeral: v.Ephemeral,
			}})
		}
	}
	return kept
}

func trimService(s *corev1.Service) { trimMeta(&s.ObjectMeta) }

func trimSlice(s *discoveryv1.EndpointSlice) {
	trimMeta(&s.ObjectMeta)
	for i := range s.Endpoints {
		e := &s.Endpoints[i]
		e.Hints, e.DeprecatedTopology, e.Hostname = nil, nil, nil
	}
}

func trimDeployment(d *appsv1.Deployment) {
	trimMeta(&d.ObjectMeta)
	trimTemplate(&d.Spec.Template)
	d.Status.Conditions = nil
}

func trimStatefulSet(s *appsv1.StatefulSet) {
	trimMeta(&s.ObjectMeta)
	trimTemplate(&s.Spec.Template)
	s.Spec.VolumeClaimTemplates, s.Status.Conditions = nil, nil
}

func trimTemplate(t *corev1.PodTemplateSpec) {
	trimMeta(&t.ObjectMeta)
	trimPodSpec(&t.Spec)
}

func trimBudget(b *policyv1.PodDisruptionBudget) {
	trimMeta(&b.ObjectMeta)
	b.Status.Conditions, b.Status.DisruptedPods = nil, nil
}

// trimAutoscaler drops the status, which changes at every look at the metrics.
func trimAutoscaler(a *autoscalingv2.HorizontalPodAutoscaler) {
	trimMeta(&a.ObjectMeta)
	a.Spec.Metrics, a.Spec.Behavior, a.Status = nil, nil, autoscalingv2.HorizontalPodAutoscalerStatus{}
}

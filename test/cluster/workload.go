// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// ProxyName is the label with which a Service asks for Weir instead of kube-proxy.
const ProxyName = "service.kubernetes.io/service-proxy-name"

// Workload is a Deployment and a Service over its pods, both of one name.
type Workload struct {
	Namespace, Name string
	Replicas        int32
	// CPU and Memory are requests, and limits too; empty is 100m and 64Mi.
	CPU, Memory string
	// Annotations are the Service's.
	Annotations map[string]string
	// Unmanaged leaves the label ProxyName out.
	Unmanaged bool
	// Change alters both before they are created; nil changes nothing.
	Change func(*appsv1.Deployment, *corev1.Service)
}

// Create creates the workload, and its namespace where it is missing. Port 80 of
// the Service, named http, leads to 8080.
func (c *Cluster) Create(ctx context.Context, w Workload) error {
	if err := c.Namespace(ctx, w.Namespace); err != nil {
		return err
	}
	d, s := w.deployment(), w.service()
	if w.Change != nil {
		w.Change(d, s)
	}
	if _, err := c.Client.CoreV1().Services(w.Namespace).Create(ctx, s, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create service %s/%s: %w", w.Namespace, w.Name, err)
	}
	if _, err := c.Client.AppsV1().Deployments(w.Namespace).Create(ctx, d, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create deployment %s/%s: %w", w.Namespace, w.Name, err)
	}
	return nil
}

func (w Workload) deployment() *appsv1.Deployment {
	labels := map[string]string{"app": w.Name}
	need := corev1.ResourceList{corev1.ResourceCPU: quantity(w.CPU, "100m"), corev1.ResourceMemory: quantity(w.Memory, "64Mi")}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: w.Name, Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: &w.Replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name: "main", Image: "weir.test/" + w.Name + ":1",
					Ports:     []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}},
					Resources: corev1.ResourceRequirements{Requests: need, Limits: need},
				}}},
			},
		},
	}
}

func (w Workload) service() *corev1.Service {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: w.Name, Annotations: w.Annotations},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": w.Name},
			Ports:    []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromInt32(8080), Protocol: corev1.ProtocolTCP}},
		},
	}
	if !w.Unmanaged {
		s.Labels = map[string]string{ProxyName: "weir"}
	}
	return s
}

func quantity(text, otherwise string) resource.Quantity {
	if text == "" {
		text = otherwise
	}
	return resource.MustParse(text)
}

// WaitReady waits until the Deployment has all its replicas available and the
// Service's EndpointSlices hold as many ready endpoints.
func (c *Cluster) WaitReady(ctx context.Context, namespace, name string, limit time.Duration) error {
	return Wait(ctx, limit, func(ctx context.Context) error {
		d, err := c.Client.AppsV1().Deployments(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("get deployment %s/%s: %w", namespace, name, err)
		}
		if d.Status.ObservedGeneration < d.Generation || d.Status.AvailableReplicas != *d.Spec.Replicas || d.Status.Replicas != *d.Spec.Replicas {
			return fmt.Errorf("deployment %s/%s: %d of %d pods are available", namespace, name, d.Status.AvailableReplicas, *d.Spec.Replicas)
		}
		ready, err := c.endpoints(ctx, namespace, name)
		if err != nil {
			return err
		}
		if ready != int(*d.Spec.Replicas) {
			return fmt.Errorf("service %s/%s: %d ready endpoints of %d", namespace, name, ready, *d.Spec.Replicas)
		}
		return nil
	})
}

// endpoints counts the ready endpoints of a Service, or where name is empty of all
// of the namespace. It reads the API server's cache.
func (c *Cluster) endpoints(ctx context.Context, namespace, name string) (int, error) {
	options := metav1.ListOptions{ResourceVersion: "0"}
	if name != "" {
		options.LabelSelector = discoveryv1.LabelServiceName + "=" + name
	}
	slices, err := c.Client.DiscoveryV1().EndpointSlices(namespace).List(ctx, options)
	if err != nil {
		return 0, fmt.Errorf("list endpoint slices of %s/%s: %w", namespace, name, err)
	}
	ready := 0
	for _, s := range slices.Items {
		for _, e := range s.Endpoints {
			if e.Conditions.Ready != nil && *e.Conditions.Ready {
				ready++
			}
		}
	}
	return ready, nil
}

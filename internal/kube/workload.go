// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// workloads knows what scales a pod. A workload is named namespace/Kind/name.
type workloads struct {
	parents   map[string]*metav1.OwnerReference // of ReplicaSets, by namespace/name
	templates map[string]*corev1.PodTemplateSpec
	scalers   map[string]string // name of the HorizontalPodAutoscaler, by workload
}

func workloadName(namespace, kind, name string) string { return namespace + "/" + kind + "/" + name }

func newWorkloads(o *Objects) *workloads {
	w := &workloads{
		parents: map[string]*metav1.OwnerReference{}, templates: map[string]*corev1.PodTemplateSpec{}, scalers: map[string]string{},
	}
	for _, r := range o.ReplicaSets {
		w.parents[r.Namespace+"/"+r.Name] = metav1.GetControllerOfNoCopy(r)
	}
	for _, d := range o.Deployments {
		w.templates[workloadName(d.Namespace, "Deployment", d.Name)] = &d.Spec.Template
	}
	for _, s := range o.StatefulSets {
		w.templates[workloadName(s.Namespace, "StatefulSet", s.Name)] = &s.Spec.Template
	}
	for _, a := range o.Autoscalers {
		w.scalers[workloadName(a.Namespace, a.Spec.ScaleTargetRef.Kind, a.Spec.ScaleTargetRef.Name)] = a.Name
	}
	return w
}

// of returns the workload of a pod, and its controller; nil where it has none.
func (w *workloads) of(p *corev1.Pod) (string, *metav1.OwnerReference) {
	owner := metav1.GetControllerOfNoCopy(p)
	switch {
	case owner == nil:
		return workloadName(p.Namespace, "Pod", p.Name), nil
	case owner.Kind != "ReplicaSet":
		return workloadName(p.Namespace, owner.Kind, owner.Name), owner
	}
	parent, known := w.parents[p.Namespace+"/"+owner.Name]
	if parent != nil {
		return workloadName(p.Namespace, parent.Kind, parent.Name), owner
	}
	// A Deployment names its ReplicaSets by the hash that it labels their pods
	// with: that tells it where the ReplicaSet is not known (yet).
	hash := p.Labels[appsv1.DefaultDeploymentUniqueLabelKey]
	if deployment, ok := strings.CutSuffix(owner.Name, "-"+hash); ok && !known && hash != "" && deployment != "" {
		return workloadName(p.Namespace, "Deployment", deployment), owner
	}
	return workloadName(p.Namespace, "ReplicaSet", owner.Name), owner
}

// matching returns the workloads of a namespace whose templates a selector takes.
func (w *workloads) matching(namespace string, selector map[string]string) []string {
	if len(selector) == 0 {
		return nil
	}
	var names []string
	wanted := labels.SelectorFromValidatedSet(selector)
	for name, template := range w.templates {
		if strings.HasPrefix(name, namespace+"/") && wanted.Matches(labels.Set(template.Labels)) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// request returns what a new pod of a workload asks of its node; nil: unknown.
func (w *workloads) request(workload string) map[string]float64 {
	template, ok := w.templates[workload]
	if !ok {
		return nil
	}
	return requestOf(&corev1.Pod{Spec: template.Spec})
}

// fixed says why the replicas of a workload are not Weir's to set; empty: they
// are.
func (w *workloads) fixed(workload string) string {
	kind := strings.Split(workload, "/")[1]
	if scaler, ok := w.scalers[workload]; ok {
		return fmt.Sprintf("HorizontalPodAutoscaler %s scales it", scaler)
	}
	if !slices.Contains([]string{"Deployment", "StatefulSet", "ReplicaSet"}, kind) {
		return fmt.Sprintf("a %s is not scaled", kind)
	}
	return ""
}

// joinWorkloads gives each managed Service the workload of its pods.
func (b *builder) joinWorkloads() {
	for _, m := range b.managed {
		names := slices.Sorted(maps.Keys(m.workloads))
		if len(names) == 0 {
			names = b.workloads.matching(m.object.Namespace, m.object.Spec.Selector)
		}
		switch {
		case len(names) == 1:
			m.workload, m.fixedWhy = names[0], b.workloads.fixed(names[0])
			m.request = b.requestOf(m)
		case len(names) > 1:
			m.fixedWhy = fmt.Sprintf("its pods belong to %d workloads", len(names))
			b.problem(m.full)("spec.selector", strings.Join(names, ", "), "the pods of one workload; the service is balanced, and not scaled")
		}
		if m.fixedWhy == "" && b.unread(Autoscalers) {
			m.fixedWhy = "HorizontalPodAutoscalers can't be read, one may scale it"
		}
	}
}

// requestOf returns what a new pod of m asks of its node: by its template, else
// the most that one of its pods asks.
func (b *builder) requestOf(m *managed) map[string]float64 {
	if request := b.workloads.request(m.workload); request != nil {
		return request
	}
	request := map[string]float64{}
	for _, i := range m.instances {
		for resource, v := range i.request {
			request[resource] = max(request[resource], v)
		}
	}
	return request
}

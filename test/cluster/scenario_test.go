// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"io"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestScenario(t *testing.T) {
	c := Start(t, Options{Nodes: 3})
	s := Scenario{Namespace: "load", Services: 4, PodsPerService: 5, Change: func(i int, w *Workload) {
		if i == 2 {
			w.CPU = "200m"
		}
	}}
	must(t, c.Fill(t.Context(), s, io.Discard))
	pods, err := c.Client.CoreV1().Pods("load").List(t.Context(), metav1.ListOptions{})
	must(t, err)
	cpu := map[string]int{}
	for _, p := range pods.Items {
		cpu[p.Spec.Containers[0].Resources.Requests.Cpu().String()]++
	}
	if cpu["200m"] != 5 || cpu["100m"] != 15 {
		t.Errorf("pods by their request: %v", cpu)
	}
	services, err := c.Client.CoreV1().Services(corev1.NamespaceAll).List(t.Context(), metav1.ListOptions{LabelSelector: ProxyName + "=weir"})
	must(t, err)
	if len(services.Items) != 4 {
		t.Errorf("%d services carry the label, want 4", len(services.Items))
	}
}

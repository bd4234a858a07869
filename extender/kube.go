// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/edgeweir/weir/internal/wire"
)

// condition is the type of the pod condition that says why a pod was let go.
const condition = "edgeweir.io/Placed"

// kube does what the extender needs of the API server. Its rights: get, watch
// on pods, patch on pods/status.
type kube struct {
	client kubernetes.Interface
}

// newKube reads kubeconfig, or the service account of this pod where it is empty.
func newKube(kubeconfig, version string) (*kube, error) {
	config, err := rest.InClusterConfig()
	if kubeconfig != "" {
		config, err = clientcmd.BuildConfigFromFlags("", kubeconfig)
	}
	if errors.Is(err, rest.ErrNotInCluster) {
		return nil, errors.New("--kubeconfig: none: required outside of a cluster")
	}
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	config.UserAgent = "weir-extender/" + version
	config.QPS, config.Burst = 50, 200
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	return &kube{client: client}, nil
}

// Nominate sets pod's nominatedNodeName.
func (k *kube) Nominate(ctx context.Context, pod podRef, node string) error {
	return k.patch(ctx, pod, map[string]any{"nominatedNodeName": node})
}

// Explain takes a nomination back and sets a condition that says why.
func (k *kube) Explain(ctx context.Context, pod podRef, reason, message string) error {
	return k.patch(ctx, pod, map[string]any{
		"nominatedNodeName": nil,
		"conditions": []any{map[string]any{
			"type": condition, "status": "False", "reason": camel(reason), "message": message,
			"lastTransitionTime": metav1.Now(),
		}},
	})
}

// patch merges status into that of pod. The UID keeps it from a later pod of the
// same name.
func (k *kube) patch(ctx context.Context, pod podRef, status map[string]any) error {
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID}, "status": status})
	if err != nil {
		return err
	}
	_, err = k.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, data, metav1.PatchOptions{FieldManager: "weir-extender"}, "status")
	if err != nil {
		return fmt.Errorf("patch status of pod %s: %w", pod, err)
	}
	return nil
}

// camel turns not-offered into NotOffered, as reasons of conditions are written.
func camel(reason string) string {
	words := strings.Split(reason, "-")
	for i, w := range words {
		words[i] = strings.ToUpper(w[:1]) + w[1:]
	}
	return strings.Join(words, "")
}

// Bound waits until pod is bound and returns the node; an empty one where the
// pod is gone. It watches this one pod by name, and ends with ctx.
func (k *kube) Bound(ctx context.Context, pod podRef) (string, error) {
	for {
		p, err := k.client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return "", nil
		case err == nil:
			if node, done := binding(p, pod); done {
				return node, nil
			}
			if node, done := k.watch(ctx, pod, p.ResourceVersion); done {
				return node, nil
			}
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(200*time.Millisecond + rand.N(300*time.Millisecond)):
		}
	}
}

// watch follows pod from version on; false where the watch broke off.
func (k *kube) watch(ctx context.Context, pod podRef, version string) (string, bool) {
	w, err := k.client.CoreV1().Pods(pod.Namespace).Watch(ctx, metav1.ListOptions{
		FieldSelector:   fields.OneTermEqualSelector(metav1.ObjectNameField, pod.Name).String(),
		ResourceVersion: version,
	})
	if err != nil {
		return "", false
	}
	defer w.Stop()
	for event := range w.ResultChan() {
		p, ok := event.Object.(*corev1.Pod)
		if !ok { // an error such as 410 Gone
			return "", false
		}
		if event.Type == "DELETED" && p.Spec.NodeName == "" {
			return "", true
		}
		if node, done := binding(p, pod); done {
			return node, true
		}
	}
	return "", false
}

// binding returns the node of p, and whether the wait for it is over: it is
// bound, or another pod has its name.
func binding(p *corev1.Pod, pod podRef) (string, bool) {
	if string(p.UID) != pod.UID {
		return "", true
	}
	return p.Spec.NodeName, p.Spec.NodeName != ""
}

// refOf returns the pod of a claim.
func refOf(c *wire.Claim) (podRef, error) {
	namespace, name, ok := strings.Cut(c.Name, "/")
	if !ok {
		return podRef{}, fmt.Errorf("claim of %q: namespace/name", c.Name)
	}
	return podRef{UID: c.Pod, Namespace: namespace, Name: name}, nil
}

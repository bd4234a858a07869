// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// imageSizes returns the size of each image that any node holds, in bytes.
func imageSizes(nodes []*corev1.Node) map[string]float64 {
	sizes := map[string]float64{}
	for _, n := range nodes {
		for _, image := range n.Status.Images {
			for _, name := range image.Names {
				name = fullImage(name)
				sizes[name] = max(sizes[name], float64(image.SizeBytes))
			}
		}
	}
	return sizes
}

// heldImages returns the images that n holds of those in use, sorted.
func heldImages(n *corev1.Node, used map[string]bool) []string {
	var held []string
	for _, image := range n.Status.Images {
		for _, name := range image.Names {
			if name = fullImage(name); used[name] {
				held = append(held, name)
			}
		}
	}
	slices.Sort(held)
	return slices.Compact(held)
}

// fullImage returns an image's name as node statuses write it: with registry and
// tag.
func fullImage(name string) string {
	if name == "" {
		return ""
	}
	first, _, path := strings.Cut(name, "/")
	switch {
	case !path:
		name = "docker.io/library/" + name
	case !strings.ContainsAny(first, ".:") && first != "localhost":
		name = "docker.io/" + name
	}
	if last := name[strings.LastIndexByte(name, '/'):]; !strings.ContainsAny(last, ":@") {
		name += ":latest"
	}
	return name
}

// largestImage returns the largest image of a pod's containers; where sizes are
// unknown, the first one.
func largestImage(p *corev1.Pod, sizes map[string]float64) (string, float64) {
	var name string
	var bytes float64
	for _, containers := range [][]corev1.Container{p.Spec.Containers, p.Spec.InitContainers} {
		for _, c := range containers {
			if full := fullImage(c.Image); name == "" || sizes[full] > bytes {
				name, bytes = full, sizes[full]
			}
		}
	}
	return name, bytes
}

// SPDX-License-Identifier: Apache-2.0

package discovery

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"

	"github.com/edgeweir/weir/internal/cluster"
	"github.com/edgeweir/weir/internal/kube"
)

const (
	// patience is how long a fault must last to be told: while objects come in
	// one by one, an endpoint may be there before its pod.
	patience = 5 * time.Second
	// again is when a fault that lasts is told again: Events live for an hour.
	again = time.Hour
	// round is how often the herald looks.
	round = time.Second
	// atOnce bounds the Events of a round: a bad template may have spoilt all.
	atOnce = 20
)

// herald tells the faults of objects as Events on them.
type herald struct {
	broadcaster events.EventBroadcaster
	recorder    events.EventRecorder
	logger      *slog.Logger
	speaks      func() bool
	now         func() time.Time

	mu      sync.Mutex
	objects *kube.Objects
	faults  map[cluster.Problem]*fault
}

// fault is a problem that is there now.
type fault struct{ since, told time.Time }

func newHerald(client kubernetes.Interface, options Options) *herald {
	h := &herald{logger: options.Logger, speaks: options.Speaks, now: time.Now, faults: map[cluster.Problem]*fault{}}
	if h.speaks == nil {
		h.speaks = func() bool { return true }
	}
	h.broadcaster = events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()})
	h.recorder = h.broadcaster.NewRecorder(scheme.Scheme, "edgeweir.io/optimizer")
	return h
}

// hear takes the problems of a build; those that are no longer among them are
// forgotten.
func (h *herald) hear(problems []cluster.Problem, of *kube.Objects) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.objects = of
	now := map[cluster.Problem]*fault{}
	for _, p := range problems {
		now[p] = h.faults[p]
		if now[p] == nil {
			now[p] = &fault{since: h.now()}
		}
	}
	h.faults = now
}

// run tells what is due until ctx ends.
func (h *herald) run(ctx context.Context) error {
	if err := h.broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
		return fmt.Errorf("record events: %w", err)
	}
	defer h.broadcaster.Shutdown()
	tick := time.NewTicker(round)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if h.speaks() {
				h.tell()
			}
		}
	}
}

// tell writes the Events that are due.
func (h *herald) tell() {
	due, objects := h.due()
	for _, p := range due {
		h.recorder.Eventf(reference(objects, p.Object), nil, corev1.EventTypeWarning, reasonOf(p), "Discover", "%s", noteOf(p))
		h.logger.Warn("fault of an object", "object", p.Object, "field", p.Field, "value", p.Value, "allowed", p.Allowed)
	}
}

// due returns the problems that have lasted and were not told of late, and marks
// them as told.
func (h *herald) due() ([]cluster.Problem, *kube.Objects) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var due []cluster.Problem
	now := h.now()
	for p, f := range h.faults {
		if len(due) < atOnce && now.Sub(f.since) >= patience && (f.told.IsZero() || now.Sub(f.told) >= again) {
			f.told = now
			due = append(due, p)
		}
	}
	return due, h.objects
}

func reasonOf(p cluster.Problem) string {
	if strings.HasPrefix(p.Field, kube.Prefix) {
		return "InvalidAnnotation"
	}
	return "NotSupported"
}

func noteOf(p cluster.Problem) string {
	if reasonOf(p) == "InvalidAnnotation" {
		return fmt.Sprintf("%s: %q: allowed is %s; the default is in force", p.Field, p.Value, p.Allowed)
	}
	return fmt.Sprintf("%s: %q: Weir needs %s", p.Field, p.Value, p.Allowed)
}

// reference returns what the API server knows an object (Kind/namespace/name) by.
func reference(o *kube.Objects, object string) *corev1.ObjectReference {
	part := strings.Split(object, "/")
	r := &corev1.ObjectReference{Kind: part[0], Name: part[len(part)-1], APIVersion: "v1"}
	if len(part) > 2 {
		r.Namespace = part[1]
	}
	switch r.Kind {
	case "Deployment", "StatefulSet", "ReplicaSet", "DaemonSet":
		r.APIVersion = "apps/v1"
	case "Job":
		r.APIVersion = "batch/v1"
	}
	r.UID = uidOf(o, r)
	return r
}

// uidOf returns the identity of an object; of a Node it is its name, as the
// kubelet has it.
func uidOf(o *kube.Objects, r *corev1.ObjectReference) types.UID {
	switch r.Kind {
	case "Node":
		return types.UID(r.Name)
	case "Service":
		for _, s := range o.Services {
			if s.Namespace == r.Namespace && s.Name == r.Name {
				return s.UID
			}
		}
	case "Deployment":
		for _, d := range o.Deployments {
			if d.Namespace == r.Namespace && d.Name == r.Name {
				return d.UID
			}
		}
	case "StatefulSet":
		for _, s := range o.StatefulSets {
			if s.Namespace == r.Namespace && s.Name == r.Name {
				return s.UID
			}
		}
	}
	return ""
}

// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// Watch is one kind of objects to keep.
type Watch struct {
	Kind Kind
	// Labels and Fields select the objects at the server; empty: all.
	Labels, Fields string
	// Optional kinds may be missing or forbidden: Weir then does without.
	Optional bool
}

// Feed keeps a copy of the objects of some kinds.
type Feed struct {
	streams []*stream
}

// stream is the copy of one kind.
type stream struct {
	Watch
	informer cache.SharedIndexInformer
	contact  *contact
}

// NewFeed prepares the copies of watches; changed is called after each change
// that matters, on a goroutine of the feed.
func NewFeed(config *rest.Config, watches []Watch, changed func()) (*Feed, error) {
	config = rest.CopyConfig(config)
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	config.ContentType = runtime.ContentTypeProtobuf
	shared, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("connect to the API server: %w", err)
	}
	f := &Feed{}
	for _, w := range watches {
		s, err := newStream(config, shared, w, changed)
		if err != nil {
			return nil, fmt.Errorf("watch %s: %w", w.Kind, err)
		}
		f.streams = append(f.streams, s)
	}
	return f, nil
}

func newStream(config *rest.Config, shared *http.Client, w Watch, changed func()) (*stream, error) {
	of, ok := groups[w.Kind]
	if !ok {
		return nil, fmt.Errorf("kind %q: not one of those that Weir reads", w.Kind)
	}
	s := &stream{Watch: w, contact: &contact{next: shared.Transport, now: time.Now}}
	client := &http.Client{Transport: s.contact, Timeout: shared.Timeout}
	source, err := of.source(config, client, w)
	if err != nil {
		return nil, err
	}
	s.informer = cache.NewSharedIndexInformer(source, of.object, 0, cache.Indexers{})
	if err := s.informer.SetTransform(of.trim); err != nil {
		return nil, err
	}
	if err := s.informer.SetWatchErrorHandlerWithContext(func(context.Context, *cache.Reflector, error) {}); err != nil {
		return nil, err
	}
	_, err = s.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { changed() },
		UpdateFunc: func(before, after any) {
			if !same(before, after) {
				changed()
			}
		},
		DeleteFunc: func(any) { changed() },
	})
	return s, err
}

// source lists and watches the objects that w selects.
func (g group) source(config *rest.Config, client *http.Client, w Watch) (cache.ListerWatcher, error) {
	narrow := func(o *metav1.ListOptions) { o.LabelSelector, o.FieldSelector = w.Labels, w.Fields }
	if g.metadata {
		return g.metadataSource(config, client, w, narrow)
	}
	config = rest.CopyConfig(config)
	config.APIPath, config.GroupVersion, config.NegotiatedSerializer = "/apis", &g.version, codecs.WithoutConversion()
	if g.version.Group == "" {
		config.APIPath = "/api"
	}
	at, err := rest.RESTClientForConfigAndClient(config, client)
	if err != nil {
		return nil, err
	}
	return cache.NewFilteredListWatchFromClient(at, string(w.Kind), metav1.NamespaceAll, narrow), nil
}

func (g group) metadataSource(config *rest.Config, client *http.Client, w Watch, narrow func(*metav1.ListOptions)) (cache.ListerWatcher, error) {
	all, err := metadata.NewForConfigAndClient(metadata.ConfigFor(config), client)
	if err != nil {
		return nil, err
	}
	at := all.Resource(g.version.WithResource(string(w.Kind)))
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			narrow(&o)
			return at.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			narrow(&o)
			return at.Watch(ctx, o)
		},
	}, nil
}

// same says whether two states of an object differ in nothing but their version.
func same(before, after any) bool {
	a, okA := before.(metav1.Object)
	b, okB := after.(metav1.Object)
	if !okA || !okB || a.GetUID() != b.GetUID() {
		return false
	}
	if a.GetResourceVersion() == b.GetResourceVersion() {
		return true
	}
	// Objects in the cache are shared: a copy takes the other's version.
	c := before.(runtime.Object).DeepCopyObject()
	c.(metav1.Object).SetResourceVersion(b.GetResourceVersion())
	return reflect.DeepEqual(c, after)
}

// Run keeps the copies up to date until ctx ends. It waits for up to spread, by
// chance, before it begins, so that agents that start together don't list
// together.
func (f *Feed) Run(ctx context.Context, spread time.Duration) {
	if spread > 0 {
		select {
		case <-ctx.Done():
			return
		case <-time.After(rand.N(spread)):
		}
	}
	// What the reflectors would log is told by Degraded.
	ctx = klog.NewContext(ctx, logr.Discard())
	var running sync.WaitGroup
	for _, s := range f.streams {
		running.Go(func() { s.informer.RunWithContext(ctx) })
	}
	running.Wait()
}

// Synced says whether every kind has been listed once; an optional one that the
// server refuses is not waited for.
func (f *Feed) Synced() bool {
	return !slices.ContainsFunc(f.streams, func(s *stream) bool {
		return !s.informer.HasSynced() && !(s.Optional && s.contact.unserved())
	})
}

// grace is how long contact may be lost before it is told: a server that
// restarts closes every watch.
const grace = 2 * time.Second

// Degraded returns one line for each kind with which there is no contact, or one
// for all of them.
func (f *Feed) Degraded() []string {
	var lines []string
	for _, s := range f.streams {
		if lost, _ := s.contact.lost(); lost <= grace && (s.informer.HasSynced() || lost == 0) {
			continue
		}
		lines = append(lines, fmt.Sprintf("API server: %s: %s", s.Kind, s.contact))
	}
	if len(lines) == len(f.streams) && len(lines) > 1 {
		return []string{fmt.Sprintf("API server: %s; what was known of the cluster stays", f.freshest())}
	}
	return lines
}

// Staleness returns for how long there has been no contact with a kind that is
// needed; 0: there is.
func (f *Feed) Staleness() time.Duration {
	var stale time.Duration
	for _, s := range f.streams {
		if !s.Optional {
			lost, _ := s.contact.lost()
			stale = max(stale, lost)
		}
	}
	return stale
}

// freshest is the contact that was lost last.
func (f *Feed) freshest() *contact {
	best := f.streams[0].contact
	least, _ := best.lost()
	for _, s := range f.streams[1:] {
		if lost, _ := s.contact.lost(); lost < least {
			best, least = s.contact, lost
		}
	}
	return best
}

// Counts returns how many objects of each kind are kept.
func (f *Feed) Counts() map[Kind]int {
	counts := map[Kind]int{}
	for _, s := range f.streams {
		counts[s.Kind] = len(s.informer.GetStore().ListKeys())
	}
	return counts
}

// Objects returns the objects as they are now. They are shared and must not be
// changed.
func (f *Feed) Objects() *Objects {
	o := &Objects{}
	for _, s := range f.streams {
		if !s.informer.HasSynced() {
			o.Unread = append(o.Unread, s.Kind)
		}
		for _, object := range s.informer.GetStore().List() {
			o.add(object)
		}
	}
	return o
}

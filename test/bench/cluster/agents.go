// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"

	"github.com/edgeweir/weir/internal/store"
	"github.com/edgeweir/weir/internal/wire"
	"github.com/edgeweir/weir/test/cluster"
)

const (
	system           = "weir-system"
	clusterName      = "bench"
	optimizerAccount = "optimizer"
	agentAccount     = "nodeagent"
	// Each node's tasks of each of its services in a period, and how many
	// services arrive at a node.
	tasksPerService, servicesPerNode = 40, 10
)

// user is a service account's name in the audit log.
func user(account string) string { return "system:serviceaccount:" + system + ":" + account }

var read = []string{"get", "list", "watch"}

// What the accounts may do.
var (
	optimizerRules = []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"nodes", "pods", "services", "namespaces"}, Verbs: read},
		{APIGroups: []string{"discovery.k8s.io"}, Resources: []string{"endpointslices"}, Verbs: read},
		{APIGroups: []string{"apps"}, Resources: []string{"replicasets", "deployments", "statefulsets"}, Verbs: read},
		{APIGroups: []string{"policy"}, Resources: []string{"poddisruptionbudgets"}, Verbs: read},
		{APIGroups: []string{"autoscaling"}, Resources: []string{"horizontalpodautoscalers"}, Verbs: read},
		{APIGroups: []string{"metrics.k8s.io"}, Resources: []string{"pods", "nodes"}, Verbs: read},
		{APIGroups: []string{"", "events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create", "patch", "update"}},
		{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"get", "create", "update", "patch", "list", "watch"}},
	}
	agentRules = []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"nodes", "pods", "services"}, Verbs: read},
		{APIGroups: []string{"discovery.k8s.io"}, Resources: []string{"endpointslices"}, Verbs: read},
	}
)

// grant binds rules to an account of the system namespace.
func grant(ctx context.Context, c *cluster.Cluster, account string, rules []rbacv1.PolicyRule) error {
	meta := metav1.ObjectMeta{Name: "weir-" + account}
	if _, err := c.Client.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create role %s: %w", meta.Name, err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: system, Name: account}},
	}
	if _, err := c.Client.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("bind role %s: %w", meta.Name, err)
	}
	return nil
}

// agents plays the node agents: the API watches of some, the arrivals of all.
type agents struct {
	plan  plan
	store *store.Store
	// totals by node and service, as the counters of a kernel would hold them.
	rounds uint64
}

func startAgents(ctx context.Context, b *bed) (*agents, error) {
	config, err := b.c.ServiceAccount(ctx, system, agentAccount)
	if err != nil {
		return nil, err
	}
	if err := grant(ctx, b.c, agentAccount, agentRules); err != nil {
		return nil, err
	}
	for i := range b.plan.agents {
		client, err := kubernetes.NewForConfig(config) // one client each, as on a node of its own
		if err != nil {
			return nil, fmt.Errorf("client of agent %d: %w", i+1, err)
		}
		watchAsAgent(ctx, client, cluster.NodeName(i+1))
	}
	s, err := store.Open(clusterName, store.Options{Addresses: []string{b.redisAt}, Timeout: 2 * time.Second})
	if err != nil {
		return nil, err
	}
	a := &agents{plan: b.plan, store: s}
	go a.tell(ctx)
	return a, nil
}

// watchAsAgent holds an agent's watches (design: Services and EndpointSlices by
// the label, its own node's pods, its own Node).
func watchAsAgent(ctx context.Context, client kubernetes.Interface, node string) {
	labelled := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.LabelSelector = cluster.ProxyName + "=weir"
	}))
	labelled.Core().V1().Services().Informer()
	labelled.Discovery().V1().EndpointSlices().Informer()
	pods := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector("spec.nodeName", node).String()
	}))
	pods.Core().V1().Pods().Informer()
	self := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector("metadata.name", node).String()
	}))
	self.Core().V1().Nodes().Informer()
	for _, f := range []informers.SharedInformerFactory{labelled, pods, self} {
		f.Start(ctx.Done())
	}
}

// tell writes the arrivals of all nodes once a period, until ctx ends.
func (a *agents) tell(ctx context.Context) {
	defer a.store.Close()
	tick := time.NewTicker(a.plan.period)
	defer tick.Stop()
	for {
		if err := a.round(ctx); err != nil && ctx.Err() == nil {
			say("tell arrivals: %v", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (a *agents) round(ctx context.Context) error {
	a.rounds++
	end := time.Now()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	for i := 1; i <= a.plan.nodes; i++ {
		group.Go(func() error {
			return a.store.PutArrivals(ctx, a.arrivals(i, end), 3*a.plan.period)
		})
	}
	return group.Wait()
}

// arrivals is what node i counts in a period: a few services, steady but for a
// change of a tenth by node and round.
func (a *agents) arrivals(i int, end time.Time) *wire.Arrivals {
	m := &wire.Arrivals{
		Version: wire.Version, Node: cluster.NodeName(i), Agent: "bench", Counters: "bench", Boot: "bench", Attachment: "netfilter",
		Period: end.UnixNano() / int64(a.plan.period), Start: end.Add(-a.plan.period), End: end,
		Services: map[string]wire.ServiceArrivals{},
	}
	for k := range min(servicesPerNode, a.plan.services) {
		service := (i*7+k)%a.plan.services + 1
		tasks := uint64(tasksPerService + (i+int(a.rounds))%5 - 2)
		m.Services[namespace+"/"+cluster.ServiceName(service)+":http"] = wire.ServiceArrivals{Tasks: tasks, Total: a.rounds * tasksPerService * 2}
	}
	return m
}

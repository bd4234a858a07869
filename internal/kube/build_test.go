// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/edgeweir/weir/internal/cluster"
)

// shop is a cluster of two nodes with Deployment web of two pods behind Service
// web, and a pod of no Service.
func shop() *Objects {
	o := &Objects{
		Nodes:    []*corev1.Node{node("edge-1", "10.64.0.1", "10.128.1.0/24"), node("edge-2", "10.64.0.2", "10.128.2.0/24")},
		Services: []*corev1.Service{service("web", "10.96.0.10")},
		Deployments: []*appsv1.Deployment{{
			ObjectMeta: meta("web"), Spec: appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}}, Spec: spec("500m", "256Mi", "", ""),
			}},
		}},
		ReplicaSets: []*metav1.PartialObjectMetadata{{ObjectMeta: owned(meta("web-7f"), "Deployment", "web")}},
	}
	o.Pods = []*corev1.Pod{
		pod("web-a", "edge-1", "10.128.1.2", spec("500m", "256Mi", "1", "512Mi")),
		pod("web-b", "edge-2", "10.128.2.2", spec("500m", "256Mi", "", "")),
		pod("other", "edge-2", "10.128.2.3", spec("1", "1Gi", "", "")),
	}
	o.Pods[2].Labels, o.Pods[2].OwnerReferences = nil, nil
	o.Slices = []*discoveryv1.EndpointSlice{slice("web-x", "web", o.Pods[0], o.Pods[1])}
	return o
}

func meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID("uid-" + name), Annotations: map[string]string{}}
}

func owned(m metav1.ObjectMeta, kind, name string) metav1.ObjectMeta {
	yes := true
	m.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: name, UID: types.UID("uid-" + name), Controller: &yes}}
	return m
}

func list(cpu, memory string) corev1.ResourceList {
	l := corev1.ResourceList{}
	if cpu != "" {
		l[corev1.ResourceCPU] = resource.MustParse(cpu)
	}
	if memory != "" {
		l[corev1.ResourceMemory] = resource.MustParse(memory)
	}
	return l
}

func node(name, address, cidr string) *corev1.Node {
	allocatable := list("3800m", "7Gi")
	allocatable[corev1.ResourcePods] = resource.MustParse("110")
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{corev1.LabelTopologyZone: "zone-1"}, Annotations: map[string]string{}},
		Spec:       corev1.NodeSpec{PodCIDRs: []string{cidr}},
		Status: corev1.NodeStatus{
			Capacity: list("4", "8Gi"), Allocatable: allocatable,
			Addresses:  []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}, {Type: corev1.NodeHostName, Address: name}},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
}

func service(name, address string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: meta(name),
		Spec: corev1.ServiceSpec{
			ClusterIP: address, ClusterIPs: []string{address}, Selector: map[string]string{"app": name},
			Ports: []corev1.ServicePort{{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP}},
		},
	}
}

// spec is of one container, with requests and limits; empty: none.
func spec(cpu, memory, cpuLimit, memoryLimit string) corev1.PodSpec {
	return corev1.PodSpec{Containers: []corev1.Container{{
		Name: "main", Image: "weir.test/web:1",
		Resources: corev1.ResourceRequirements{Requests: list(cpu, memory), Limits: list(cpuLimit, memoryLimit)},
	}}}
}

func pod(name, node, address string, spec corev1.PodSpec) *corev1.Pod {
	spec.NodeName = node
	p := &corev1.Pod{
		ObjectMeta: owned(meta(name), "ReplicaSet", "web-7f"), Spec: spec,
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: address, PodIPs: []corev1.PodIP{{IP: address}},
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		},
	}
	p.Labels = map[string]string{"app": "web"}
	return p
}

func slice(name, service string, pods ...*corev1.Pod) *discoveryv1.EndpointSlice {
	portName, port := "http", int32(8080)
	s := &discoveryv1.EndpointSlice{ObjectMeta: meta(name), AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: &portName, Port: &port}}}
	s.Labels = map[string]string{discoveryv1.LabelServiceName: service}
	for _, p := range pods {
		s.Endpoints = append(s.Endpoints, endpoint(p, true, false))
	}
	return s
}

func endpoint(p *corev1.Pod, ready, terminating bool) discoveryv1.Endpoint {
	return discoveryv1.Endpoint{
		Addresses: []string{p.Status.PodIP}, NodeName: &p.Spec.NodeName,
		Conditions: discoveryv1.EndpointConditions{Ready: &ready, Terminating: &terminating},
		TargetRef:  &corev1.ObjectReference{Kind: "Pod", Namespace: p.Namespace, Name: p.Name, UID: p.UID},
	}
}

var settings = Settings{Cluster: "lab"}

func TestBuild(t *testing.T) {
	c := Build(shop(), settings)
	if len(c.Problems) > 0 {
		t.Fatalf("problems %v", c.Problems)
	}
	if len(c.Nodes) != 2 || len(c.Services) != 1 || len(c.Pods) != 2 {
		t.Fatalf("%d nodes, %d services, %d pods", len(c.Nodes), len(c.Services), len(c.Pods))
	}
	n := c.Nodes[1]
	if n.Zone != "zone-1" || n.Addresses[0].String() != "10.64.0.2" || n.PodCIDRs[0].String() != "10.128.2.0/24" || n.Unready {
		t.Errorf("node %+v", n)
	}
	if n.Capacity["cpu"] != 4 || n.Allocatable["cpu"] != 3.8 || n.Requested["cpu"] != 1.5 || n.Requested["pods"] != 2 || n.Requested["memory"] != 1.25*(1<<30) {
		t.Errorf("capacity %v, allocatable %v, requested %v", n.Capacity, n.Allocatable, n.Requested)
	}
	web := c.Services[0]
	if web.Name != "shop/web:http" || web.Port != 80 || web.Protocol != cluster.TCP || web.Addresses[0].String() != "10.96.0.10" ||
		web.Workload != "shop/Deployment/web" || web.FixedWhy != "" || web.PodRequest["cpu"] != 0.5 || web.PodRequest["pods"] != 1 {
		t.Errorf("service %+v", web)
	}
	if want := []cluster.Endpoint{{Pod: "shop/web-a", Port: 8080}, {Pod: "shop/web-b", Port: 8080}}; !slices.Equal(web.Endpoints, want) {
		t.Errorf("endpoints %v", web.Endpoints)
	}
	a := c.Pods[0]
	if a.Node != "edge-1" || a.UID != "uid-web-a" || a.Owner != "uid-web-7f" || a.Workload != "shop/Deployment/web" || a.PinnedWhy != "" || a.Image != "weir.test/web:1" {
		t.Errorf("pod %+v", a)
	}
}

// What a pod can use is its limit, else its request and an equal share of what
// no pod has requested.
func TestCapacity(t *testing.T) {
	c := Build(shop(), settings)
	a, b := c.Pods[0].Capacity, c.Pods[1].Capacity
	if a["cpu"] != 1 || a["memory"] != 512<<20 {
		t.Errorf("limits of web-a: %v", a)
	}
	// On edge-2 pods web-b and other have no limits: (3.8 − 1.5) / 2 each.
	if got := b["cpu"]; got < 1.649 || got > 1.651 {
		t.Errorf("web-b may use %v cores, want 0.5 + 2.3/2", got)
	}
	o := shop()
	given := list("750m", "300Mi")
	o.Pods[0].Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "main", AllocatedResources: given, Resources: &corev1.ResourceRequirements{Requests: given, Limits: list("2", "600Mi")},
	}}
	o.Pods[0].Spec.Containers[0].Resources.Limits = list("2", "600Mi")
	o.Pods[0].Spec.Containers[0].Resources.Requests = list("750m", "300Mi")
	if got := Build(o, settings).Pods[0]; got.Capacity["cpu"] != 2 || got.Request["cpu"] != 0.75 {
		t.Errorf("a resized pod: capacity %v, request %v", got.Capacity, got.Request)
	}
	// A shrink that the kubelet has not done yet holds nothing back.
	o.Pods[0].Spec.Containers[0].Resources.Limits = list("500m", "600Mi")
	if got := Build(o, settings).Pods[0]; got.Capacity["cpu"] != 2 {
		t.Errorf("a pod about to shrink has a limit of %v in its status' place", got.Capacity["cpu"])
	}
	o = shop()
	o.Pods[0].Spec.Containers = append(o.Pods[0].Spec.Containers, corev1.Container{Name: "side"})
	if got := Build(o, settings).Pods[0].Capacity["cpu"]; got < 3.79 {
		t.Errorf("a pod of which one container is without a limit is limited to %v", got)
	}
}

func TestEndpoints(t *testing.T) {
	type change func(o *Objects)
	tests := []struct {
		name   string
		change change
		want   string // pod:port, "!" where terminating
	}{
		{"as they are", func(*Objects) {}, "shop/web-a:8080 shop/web-b:8080"},
		{"not ready", func(o *Objects) { o.Slices[0].Endpoints[0] = endpoint(o.Pods[0], false, false) }, "shop/web-b:8080"},
		{"terminating", func(o *Objects) { o.Slices[0].Endpoints[0] = endpoint(o.Pods[0], false, true) }, "shop/web-a:8080! shop/web-b:8080"},
		{"ready and terminating", func(o *Objects) { o.Slices[0].Endpoints[0] = endpoint(o.Pods[0], true, true) }, "shop/web-a:8080! shop/web-b:8080"},
		{"ready and terminating, published all the same", func(o *Objects) {
			o.Slices[0].Endpoints[0] = endpoint(o.Pods[0], true, true)
			o.Services[0].Spec.PublishNotReadyAddresses = true
		}, "shop/web-a:8080 shop/web-b:8080"},
		{"conditions unset", func(o *Objects) { o.Slices[0].Endpoints[0].Conditions = discoveryv1.EndpointConditions{} }, "shop/web-a:8080 shop/web-b:8080"},
		{"twice in two slices", func(o *Objects) {
			o.Slices = append(o.Slices, slice("web-y", "web", o.Pods[0]))
			o.Slices[0].Endpoints[0] = endpoint(o.Pods[0], false, true)
		}, "shop/web-a:8080 shop/web-b:8080"},
		{"one in each slice", func(o *Objects) {
			o.Slices = []*discoveryv1.EndpointSlice{slice("web-y", "web", o.Pods[1]), slice("web-x", "web", o.Pods[0])}
		}, "shop/web-a:8080 shop/web-b:8080"},
		{"a slice of another service", func(o *Objects) { o.Slices[0].Labels[discoveryv1.LabelServiceName] = "api" }, ""},
		{"another port", func(o *Objects) { *o.Slices[0].Ports[0].Name = "metrics" }, ""},
		{"a port that is none", func(o *Objects) { *o.Slices[0].Ports[0].Port = 70000 }, ""},
		{"another protocol", func(o *Objects) {
			udp := corev1.ProtocolUDP
			o.Slices[0].Ports[0].Protocol = &udp
		}, ""},
		{"no slice", func(o *Objects) { o.Slices = nil }, ""},
		{"both families", func(o *Objects) {
			six := slice("web-6", "web", o.Pods[0])
			six.AddressType, six.Endpoints[0].Addresses = discoveryv1.AddressTypeIPv6, []string{"fd00::2"}
			o.Slices = append(o.Slices, six)
		}, "shop/web-a:8080 shop/web-b:8080"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := shop()
			tt.change(o)
			c := Build(o, settings)
			if got := endpointText(c.Services[0]); got != tt.want {
				t.Errorf("endpoints %q, want %q", got, tt.want)
			}
			if len(c.Problems) > 0 {
				t.Errorf("problems %v", c.Problems)
			}
		})
	}
}

func endpointText(s cluster.Service) string {
	var out []string
	for _, e := range s.Endpoints {
		text := fmt.Sprintf("%s:%d", e.Pod, e.Port)
		if e.Terminating {
			text += "!"
		}
		out = append(out, text)
	}
	return strings.Join(out, " ")
}

// Each fault is told once, with the object that has it, and spoils nothing else.
func TestProblems(t *testing.T) {
	tests := []struct {
		name   string
		change func(o *Objects)
		want   string
	}{
		{"bad annotation", func(o *Objects) { o.Services[0].Annotations["edgeweir.io/sla"] = "fast" },
			`Service/shop/web: edgeweir.io/sla: "fast": a number over 0`},
		{"unknown annotation", func(o *Objects) { o.Services[0].Annotations["edgeweir.io/slo"] = "1" },
			`Service/shop/web: edgeweir.io/*: "slo": an annotation for a Service that docs/annotations.md lists`},
		{"annotation of another kind", func(o *Objects) { o.Nodes[0].Annotations["edgeweir.io/sla"] = "1" },
			`Node/edge-1: edgeweir.io/*: "sla": an annotation for a Node that docs/annotations.md lists`},
		{"maximum under minimum", func(o *Objects) {
			o.Services[0].Annotations["edgeweir.io/min-replicas"], o.Services[0].Annotations["edgeweir.io/max-replicas"] = "3", "2"
		}, `Service/shop/web: edgeweir.io/max-replicas: "2": at least min-replicas, 3`},
		{"a template's annotation, once for its pods", func(o *Objects) {
			o.Pods[0].Annotations["edgeweir.io/movable"], o.Pods[1].Annotations["edgeweir.io/movable"] = "maybe", "maybe"
		}, `Deployment/shop/web: edgeweir.io/movable: "maybe": true or false`},
		{"headless", func(o *Objects) { o.Services = append(o.Services, service("db", "None")) },
			`Service/shop/db: spec.clusterIP: "None"`},
		{"external name", func(o *Objects) {
			o.Services = append(o.Services, service("db", ""))
			o.Services[1].Spec.Type = corev1.ServiceTypeExternalName
		}, `Service/shop/db: spec.type: "ExternalName"`},
		{"affinity", func(o *Objects) { o.Services[0].Spec.SessionAffinity = corev1.ServiceAffinityClientIP },
			`Service/shop/web: spec.sessionAffinity: "ClientIP"`},
		{"bad external address", func(o *Objects) { o.Services[0].Spec.ExternalIPs = []string{"127.0.0.1"} },
			`Service/shop/web: spec.externalIPs: "127.0.0.1": a unicast address`},
		{"an address twice", func(o *Objects) {
			o.Services = append(o.Services, service("api", "10.96.0.10"))
			o.Services[0].CreationTimestamp, o.Services[1].CreationTimestamp = metav1.NewTime(time.Unix(1, 0)), metav1.NewTime(time.Unix(2, 0))
		}, `Service/shop/api: spec.ports: "10.96.0.10 port 80/TCP": an address and port that no other service has; shop/web:http has them`},
		{"pods of two workloads", func(o *Objects) {
			o.Pods[1].OwnerReferences[0].Kind, o.Pods[1].OwnerReferences[0].Name = "StatefulSet", "db"
		},
			`Service/shop/web: spec.selector: "shop/Deployment/web, shop/StatefulSet/db"`},
		{"endpoint without a pod", func(o *Objects) {
			o.Slices[0].Endpoints = append(o.Slices[0].Endpoints, discoveryv1.Endpoint{Addresses: []string{"192.0.2.1"}})
		}, `Service/shop/web: endpoints: "192.0.2.1"`},
		{"endpoint of an unknown pod", func(o *Objects) {
			o.Slices[0].Endpoints = append(o.Slices[0].Endpoints, endpoint(pod("gone", "edge-1", "10.128.1.9", spec("", "", "", "")), true, false))
		}, `Service/shop/web: endpoints: "shop/gone"`},
		{"endpoint of a pod's forerunner", func(o *Objects) {
			o.Slices = append(o.Slices, slice("web-y", "web", o.Pods[0]))
			o.Slices[1].Endpoints[0].TargetRef.UID = "uid-before"
		}, `Service/shop/web: endpoints: "shop/web-a"`},
		{"endpoints by name", func(o *Objects) {
			o.Slices = append(o.Slices, slice("web-y", "web", o.Pods[0]))
			o.Slices[1].AddressType = discoveryv1.AddressTypeFQDN
		}, `Service/shop/web: endpoints: "FQDN"`},
		{"node without addresses", func(o *Objects) { o.Nodes[0].Status.Addresses = nil }, `Node/edge-1: status.addresses: "none"`},
		{"node with a bad address", func(o *Objects) {
			o.Nodes[0].Status.Addresses[1] = corev1.NodeAddress{Type: corev1.NodeExternalIP, Address: "here"}
		},
			`Node/edge-1: status.addresses: "here"`},
		{"node with a bad network", func(o *Objects) { o.Nodes[0].Spec.PodCIDRs[0] = "10/8" }, `Node/edge-1: spec.podCIDRs: "10/8": a network`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := shop()
			tt.change(o)
			c := Build(o, settings)
			if len(c.Problems) != 1 || !strings.HasPrefix(c.Problems[0].String(), tt.want) {
				t.Errorf("problems %v, want one: %s", c.Problems, tt.want)
			}
			if at := slices.IndexFunc(c.Services, func(s cluster.Service) bool { return s.Name == "shop/web:http" }); at < 0 || endpointText(c.Services[at]) != "shop/web-a:8080 shop/web-b:8080" {
				t.Errorf("the service suffers: %+v", c.Services)
			}
			if len(c.Nodes) != 2 || c.Services[0].SLA != 0 {
				t.Errorf("%d nodes, %+v", len(c.Nodes), c.Services[0])
			}
		})
	}
}

func TestDeclaredService(t *testing.T) {
	o := shop()
	for name, value := range map[string]string{
		"sla": "40", "energy-cost": "0", "deploy-cost": "2.5", "min-replicas": "2", "max-replicas": "9", "cost.cpu": "20m", "cost.network": "30k",
		"cost.workers": "0.05", "scheduler": "wrr", "mode": "observe", "migration-mode": "enforce", "scaling-mode": "off",
	} {
		o.Services[0].Annotations[Prefix+name] = value
	}
	o.Nodes[0].Annotations[Prefix+"network"], o.Nodes[0].Annotations[Prefix+"pull-bandwidth"] = "125M", "20Mi"
	local := corev1.ServiceInternalTrafficPolicyLocal
	o.Services[0].Spec.InternalTrafficPolicy = &local
	c := Build(o, settings)
	if len(c.Problems) > 0 {
		t.Fatal(c.Problems)
	}
	s := c.Services[0]
	if s.SLA != 40 || *s.EnergyCost != 0 || *s.DeployCost != 2.5 || s.MinReplicas != 2 || s.MaxReplicas != 9 || !s.TrafficPolicyLocal {
		t.Errorf("%+v, costs %g and %g", s, *s.EnergyCost, *s.DeployCost)
	}
	if s.Costs["cpu"] != 0.02 || s.Costs["network"] != 30000 || s.Costs["workers"] != 0.05 {
		t.Errorf("task costs %v", s.Costs)
	}
	if s.Scheduler != "wrr" || s.Mode != cluster.Observe || s.MigrationMode != cluster.Enforce || s.ScalingMode != cluster.Off {
		t.Errorf("%+v", s)
	}
	if n := c.Nodes[0]; n.Capacity["network"] != 1.25e8 || n.PullBandwidth != 20<<20 {
		t.Errorf("node %+v", n)
	}
}

func TestServicePorts(t *testing.T) {
	o := shop()
	s := o.Services[0]
	s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "dns", Port: 53, Protocol: corev1.ProtocolUDP})
	s.Spec.ClusterIPs = append(s.Spec.ClusterIPs, "fd00::10")
	s.Spec.ExternalIPs = []string{"192.0.2.7"}
	proxy := corev1.LoadBalancerIPModeProxy
	s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.8"}, {Hostname: "lb.example"}, {IP: "192.0.2.9", IPMode: &proxy}}
	bare := service("bare", "10.96.0.11")
	bare.Spec.Ports[0].Name, bare.Spec.Selector = "", nil
	pending := service("pending", "")
	pending.Spec.ClusterIPs = nil
	o.Services = append(o.Services, bare, pending)
	c := Build(o, settings)
	var names []string
	for _, s := range c.Services {
		names = append(names, s.Name)
	}
	if want := []string{"shop/bare:80", "shop/web:dns", "shop/web:http"}; !slices.Equal(names, want) {
		t.Fatalf("services %v, want %v", names, want)
	}
	var addresses []string
	for _, a := range c.Services[2].Addresses {
		addresses = append(addresses, a.String())
	}
	if want := []string{"10.96.0.10", "fd00::10", "192.0.2.7", "192.0.2.8"}; !slices.Equal(addresses, want) {
		t.Errorf("addresses %v, want %v", addresses, want)
	}
	if dns := c.Services[1]; dns.Protocol != cluster.UDP || len(dns.Endpoints) != 0 {
		t.Errorf("dns %+v", dns)
	}
	if len(c.Problems) > 0 {
		t.Error(c.Problems)
	}
}

func TestPinned(t *testing.T) {
	yes := true
	owner := func(kind string) func(o *Objects, p *corev1.Pod) {
		return func(_ *Objects, p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: "x", Controller: &yes}}
		}
	}
	annotate := func(name, value string) func(*Objects, *corev1.Pod) {
		return func(_ *Objects, p *corev1.Pod) { p.Annotations[name] = value }
	}
	volume := func(v corev1.VolumeSource) func(*Objects, *corev1.Pod) {
		return func(_ *Objects, p *corev1.Pod) { p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: v}} }
	}
	budget := func(allowed int32) func(o *Objects, _ *corev1.Pod) {
		return func(o *Objects, _ *corev1.Pod) {
			o.Budgets = append(o.Budgets, &policyv1.PodDisruptionBudget{ObjectMeta: meta("keep"),
				Spec:   policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
				Status: policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: allowed}})
		}
	}
	local := volume(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}})
	tests := []struct {
		name   string
		change []func(o *Objects, p *corev1.Pod)
		want   string
	}{
		{"none", nil, ""},
		{"bare", []func(*Objects, *corev1.Pod){func(_ *Objects, p *corev1.Pod) { p.OwnerReferences = nil }}, "no controller"},
		{"daemon", []func(*Objects, *corev1.Pod){owner("DaemonSet")}, "a DaemonSet controls it"},
		{"job", []func(*Objects, *corev1.Pod){owner("Job")}, "a Job controls it"},
		{"unknown controller", []func(*Objects, *corev1.Pod){owner("Rollout")}, "a Rollout controls it"},
		{"stateful", []func(*Objects, *corev1.Pod){owner("StatefulSet")}, ""},
		{"mirror", []func(*Objects, *corev1.Pod){annotate(mirrorAnnotation, "x")}, "a static pod"},
		{"deleted", []func(*Objects, *corev1.Pod){func(_ *Objects, p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }}, "it is being deleted"},
		{"not movable", []func(*Objects, *corev1.Pod){annotate("edgeweir.io/movable", "false")}, "annotated as not movable"},
		{"service not movable", []func(*Objects, *corev1.Pod){func(o *Objects, _ *corev1.Pod) { o.Services[0].Annotations["edgeweir.io/movable"] = "false" }}, "annotated at Service shop/web as not movable"},
		{"service not movable, pod movable", []func(*Objects, *corev1.Pod){
			func(o *Objects, _ *corev1.Pod) { o.Services[0].Annotations["edgeweir.io/movable"] = "false" }, annotate("edgeweir.io/movable", "true")}, ""},
		{"not safe to evict", []func(*Objects, *corev1.Pod){annotate(safeToEvictAnnotation, "false")}, "annotated as not safe to evict"},
		{"local storage", []func(*Objects, *corev1.Pod){local}, "local storage: volume data"},
		{"host path", []func(*Objects, *corev1.Pod){volume(corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{}})}, "local storage: volume data"},
		{"memory", []func(*Objects, *corev1.Pod){volume(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}})}, ""},
		{"claim", []func(*Objects, *corev1.Pod){volume(corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{}})}, "volume data may be bound to its node"},
		{"local storage, safe to evict", []func(*Objects, *corev1.Pod){local, annotate(safeToEvictAnnotation, "true")}, ""},
		{"local storage, movable", []func(*Objects, *corev1.Pod){local, annotate("edgeweir.io/movable", "true")}, ""},
		{"budget spent", []func(*Objects, *corev1.Pod){budget(0)}, "PodDisruptionBudget keep allows no disruption"},
		{"budget spent, movable", []func(*Objects, *corev1.Pod){budget(0), annotate("edgeweir.io/movable", "true")}, "PodDisruptionBudget keep"},
		{"budget left", []func(*Objects, *corev1.Pod){budget(1)}, ""},
		{"two budgets", []func(*Objects, *corev1.Pod){budget(1), budget(1)}, "2 PodDisruptionBudgets"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := shop()
			for _, change := range tt.change {
				change(o, o.Pods[0])
			}
			got := Build(o, settings).Pods[0].PinnedWhy
			if (got == "") != (tt.want == "") || !strings.HasPrefix(got, tt.want) {
				t.Errorf("pinned because %q, want %q", got, tt.want)
			}
		})
	}
}

func TestWorkloads(t *testing.T) {
	tests := []struct {
		name                 string
		change               func(o *Objects)
		pod, service, reason string
	}{
		{"deployment", func(*Objects) {}, "shop/Deployment/web", "shop/Deployment/web", ""},
		{"replica set alone", func(o *Objects) { o.ReplicaSets[0].OwnerReferences = nil }, "shop/ReplicaSet/web-7f", "shop/ReplicaSet/web-7f", ""},
		{"replica set not seen yet", func(o *Objects) {
			o.ReplicaSets = nil
			for _, p := range o.Pods[:2] {
				p.Labels = map[string]string{"app": "web", appsv1.DefaultDeploymentUniqueLabelKey: "7f"}
			}
		}, "shop/Deployment/web", "shop/Deployment/web", ""},
		{"daemon set", func(o *Objects) {
			for _, p := range o.Pods {
				p.ObjectMeta = owned(p.ObjectMeta, "DaemonSet", "web")
			}
		}, "shop/DaemonSet/web", "shop/DaemonSet/web", "a DaemonSet is not scaled"},
		{"autoscaler", func(o *Objects) {
			o.Autoscalers = []*autoscalingv2.HorizontalPodAutoscaler{{ObjectMeta: meta("auto"), Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
				ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{Kind: "Deployment", Name: "web"}}}}
		}, "shop/Deployment/web", "shop/Deployment/web", "HorizontalPodAutoscaler auto scales it"},
		{"autoscalers unknown", func(o *Objects) { o.Unread = []Kind{Autoscalers} }, "shop/Deployment/web", "shop/Deployment/web", "HorizontalPodAutoscalers can't be read, one may scale it"},
		{"two workloads", func(o *Objects) { o.Pods[1].OwnerReferences = nil }, "shop/Deployment/web", "", "its pods belong to 2 workloads"},
		{"no pods", func(o *Objects) { o.Pods, o.Slices = nil, nil }, "", "shop/Deployment/web", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := shop()
			tt.change(o)
			c := Build(o, settings)
			if tt.pod != "" && c.Pods[0].Workload != tt.pod {
				t.Errorf("the pod is of %q, want %q", c.Pods[0].Workload, tt.pod)
			}
			if s := c.Services[0]; s.Workload != tt.service || s.FixedWhy != tt.reason {
				t.Errorf("the service is of %q (%q), want %q (%q)", s.Workload, s.FixedWhy, tt.service, tt.reason)
			}
		})
	}
}

func TestImages(t *testing.T) {
	o := shop()
	o.Pods[0].Spec.Containers[0].Image = "nginx"
	o.Nodes[1].Status.Images = []corev1.ContainerImage{
		{Names: []string{"docker.io/library/nginx@sha256:aa", "docker.io/library/nginx:latest"}, SizeBytes: 5000},
		{Names: []string{"weir.test/unused:1"}, SizeBytes: 7000},
	}
	c := Build(o, settings)
	if p := c.Pods[0]; p.Image != "docker.io/library/nginx:latest" || p.ImageBytes != 5000 {
		t.Errorf("image %q of %g bytes", p.Image, p.ImageBytes)
	}
	if got := c.Nodes[1].Images; !slices.Equal(got, []string{"docker.io/library/nginx:latest"}) || c.Nodes[0].Images != nil {
		t.Errorf("edge-2 holds %v, edge-1 %v", got, c.Nodes[0].Images)
	}
	for short, full := range map[string]string{
		"": "", "web": "docker.io/library/web:latest", "web:2": "docker.io/library/web:2", "team/web": "docker.io/team/web:latest",
		"localhost/web": "localhost/web:latest", "host:5000/web": "host:5000/web:latest", "weir.test/web@sha256:aa": "weir.test/web@sha256:aa",
	} {
		if got := fullImage(short); got != full {
			t.Errorf("%q is in full %q, want %q", short, got, full)
		}
	}
}

// The agent of a node sees the pods of others through the EndpointSlices.
func TestViewOfOneNode(t *testing.T) {
	o := shop()
	whole := Build(o, settings)
	o.Nodes, o.Pods, o.ReplicaSets, o.Deployments = o.Nodes[:1], o.Pods[:1], nil, nil
	zone := "zone-2"
	o.Slices[0].Endpoints[1].Zone = &zone
	c := Build(o, Settings{Cluster: "lab", Node: "edge-1"})
	if len(c.Problems) > 0 {
		t.Error(c.Problems)
	}
	if endpointText(c.Services[0]) != endpointText(whole.Services[0]) {
		t.Errorf("endpoints %q", endpointText(c.Services[0]))
	}
	if b := c.Pods[1]; b.Name != "shop/web-b" || b.Node != "edge-2" || b.Addresses[0] != netip.MustParseAddr("10.128.2.2") {
		t.Errorf("pod of another node: %+v", b)
	}
	if n := c.Nodes[1]; n.Name != "edge-2" || n.Zone != "zone-2" {
		t.Errorf("another node: %+v", n)
	}
	if a := c.Pods[0]; a.Capacity["cpu"] != 1 || a.Node != "edge-1" {
		t.Errorf("own pod: %+v", a)
	}
}

func TestThousandEndpoints(t *testing.T) {
	o := shop()
	o.Slices = nil
	for i := range 1000 {
		p := pod(fmt.Sprintf("web-%d", i), "edge-1", fmt.Sprintf("10.200.%d.%d", i/250, i%250+1), spec("1m", "1Mi", "", ""))
		o.Pods = append(o.Pods, p)
	}
	o.Slices = []*discoveryv1.EndpointSlice{slice("web-x", "web", o.Pods[3:]...)}
	c := Build(o, settings)
	if len(c.Services[0].Endpoints) != 1000 || len(c.Problems) != 0 {
		t.Errorf("%d endpoints, problems %v", len(c.Services[0].Endpoints), c.Problems)
	}
}

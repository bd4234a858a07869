// SPDX-License-Identifier: Apache-2.0

package optimizer

import (
	"maps"
	"slices"
	"time"

	"github.com/edgeweir/weir/internal/cluster"
	"github.com/edgeweir/weir/internal/wire"
	"github.com/edgeweir/weir/optimizer/model"
	"github.com/edgeweir/weir/optimizer/monitor"
)

// Sources of a task cost that no estimate gives.
const declaredCost = "declared"

// knowledge is what the optimizer knows at the start of a cycle.
type knowledge struct {
	cluster   *cluster.Cluster
	period    time.Duration
	demand    map[string]monitor.Demand // by node; silent nodes are absent
	means     *monitor.Means
	estimator *monitor.Estimator
}

// learn enters one period's reports into the means and the estimates.
func (k *knowledge) learn() {
	k.means.Advance()
	tasks := k.tasks()
	for _, d := range k.demand {
		for pod, reading := range d.Usage.Pods {
			k.means.Add(pod, reading, tasks[pod])
		}
	}
	k.estimate()
}

// tasks returns the tasks that each pod served in the last period, by service,
// over all nodes; 0 for a service that it serves and that gave it none.
func (k *knowledge) tasks() map[string]map[string]float64 {
	tasks := map[string]map[string]float64{}
	for pod, services := range servicesOf(k.cluster) {
		tasks[pod] = map[string]float64{}
		for _, service := range services {
			tasks[pod][service] = 0
		}
	}
	for _, d := range k.demand {
		for service, pods := range d.Taken {
			for pod, n := range pods {
				if byService, ok := tasks[pod]; ok {
					byService[service] += n
				}
			}
		}
	}
	return tasks
}

// estimate feeds the estimator: one sample per pod that serves a single service.
// What a pod of several uses can't be told apart. The samples are means over
// some periods: in one period consumption lags behind the tasks by up to a task's
// length and the reading of IPVS's counters, which would make the slope too flat.
func (k *knowledge) estimate() {
	services := servicesOf(k.cluster)
	for _, s := range k.cluster.Services {
		samples := map[string][]monitor.Sample{}
		for _, e := range s.Endpoints {
			used, _, tasks, fresh := k.means.Pod(e.Pod)
			if !fresh || len(services[e.Pod]) != 1 {
				continue
			}
			for resource, v := range used {
				samples[resource] = append(samples[resource], monitor.Sample{Tasks: tasks[s.Name], Used: v})
			}
		}
		for resource, all := range samples {
			k.estimator.Observe(s.Name, resource, all)
		}
	}
}

// servicesOf returns the names of the services that each pod serves.
func servicesOf(c *cluster.Cluster) map[string][]string {
	services := map[string][]string{}
	for _, s := range c.Services {
		for _, e := range s.Endpoints {
			services[e.Pod] = append(services[e.Pod], s.Name)
		}
	}
	return services
}

// snapshot returns what the models need to know. Services whose mode is off are
// left out.
func (k *knowledge) snapshot(settings model.DispatchSettings, costs map[string]map[string]wire.Cost) *model.Snapshot {
	s := model.NewSnapshot()
	s.Period, s.Slice = model.Duration(k.period), model.Duration(slicePeriods*k.period)
	s.Dispatch = settings
	managed := map[string]bool{}
	for _, l := range k.cluster.Services {
		if l.Mode == cluster.Off {
			continue
		}
		managed[l.Name] = true
		s.Services = append(s.Services, k.service(l, costs[l.Name]))
	}
	for _, n := range k.cluster.Nodes {
		s.Nodes = append(s.Nodes, k.node(n))
		s.Arrivals = append(s.Arrivals, k.arrivals(n.Name, managed)...)
	}
	s.Pods = k.pods(managed)
	s.Resources = resourcesOf(s)
	return s
}

// slicePeriods is the number of periods M in a slice.
const slicePeriods = 12

func (k *knowledge) service(l cluster.Service, costs map[string]wire.Cost) model.Service {
	s := model.Service{Name: l.Name, Workload: l.Name, EnergyCost: 1, DeployCost: 1, MinReplicas: 1, TaskCost: model.Quantities{}}
	for resource, c := range costs {
		s.TaskCost[resource] = c.Value
	}
	return s
}

func (k *knowledge) node(n cluster.Node) model.Node {
	reading := k.demand[n.Name].Usage.Node
	return model.Node{
		Name: n.Name, Zone: n.Zone, Ready: true, PullBandwidth: 12.5e6,
		Capacity: declaredOver(n.Capacity, reading.Capacity), Used: model.Quantities(reading.Used),
	}
}

// declaredOver returns measured quantities with the declared ones in their place.
func declaredOver(declared, measured map[string]float64) model.Quantities {
	q := model.Quantities{}
	maps.Copy(q, measured)
	maps.Copy(q, declared)
	return q
}

func (k *knowledge) pods(managed map[string]bool) []model.Pod {
	services, draining := servicesOf(k.cluster), drainingOf(k.cluster)
	var pods []model.Pod
	for _, p := range k.cluster.Pods {
		used, capacity, tasks, _ := k.means.Pod(p.Name)
		pod := model.Pod{
			Name: p.Name, Workload: p.Name, Node: p.Node, Ready: true, Movable: true, Draining: draining[p.Name],
			Capacity: declaredOver(p.Capacity, capacity), Used: model.Quantities(used), Tasks: model.Quantities{},
		}
		for _, l := range services[p.Name] {
			if managed[l] {
				pod.Services = append(pod.Services, l)
				if n := tasks[l]; n > 0 {
					pod.Tasks[l] = n
				}
			}
		}
		if len(pod.Services) > 0 {
			pods = append(pods, pod)
		}
	}
	return pods
}

// drainingOf returns the pods that are terminating in some service.
func drainingOf(c *cluster.Cluster) map[string]bool {
	draining := map[string]bool{}
	for _, s := range c.Services {
		for _, e := range s.Endpoints {
			draining[e.Pod] = draining[e.Pod] || e.Terminating
		}
	}
	return draining
}

func (k *knowledge) arrivals(node string, managed map[string]bool) []model.Arrival {
	d := k.demand[node]
	var arrivals []model.Arrival
	for _, service := range slices.Sorted(maps.Keys(d.Rate)) {
		if managed[service] && (d.Rate[service] > 0 || d.Last[service] > 0) {
			arrivals = append(arrivals, model.Arrival{
				Service: service, Node: node, Tasks: d.Rate[service], Last: d.Last[service], SliceTasks: slicePeriods * d.Rate[service],
			})
		}
	}
	return arrivals
}

// resourcesOf returns the resources that any capacity or use of s names, the
// network of nodes apart.
func resourcesOf(s *model.Snapshot) []string {
	names := map[string]bool{}
	add := func(q model.Quantities) {
		for resource := range q {
			names[resource] = resource != model.NetworkResource
		}
	}
	for _, n := range s.Nodes {
		add(n.Capacity)
		add(n.Used)
	}
	for _, p := range s.Pods {
		add(p.Capacity)
		add(p.Used)
	}
	for _, l := range s.Services {
		add(l.TaskCost)
	}
	maps.DeleteFunc(names, func(_ string, keep bool) bool { return !keep })
	return slices.Sorted(maps.Keys(names))
}

// costs returns what one task a period adds to each resource: declared, else
// estimated for the resources that limit the service's pods. Memory counts only
// where it is declared: a stock that tasks don't use up must not attract them.
func (k *knowledge) costs() map[string]map[string]wire.Cost {
	all := map[string]map[string]wire.Cost{}
	pods := k.cluster.PodsByName()
	for _, l := range k.cluster.Services {
		costs := map[string]wire.Cost{}
		for _, e := range l.Endpoints {
			_, capacity, _, _ := k.means.Pod(e.Pod)
			for resource := range declaredOver(pods[e.Pod].Capacity, capacity) {
				if resource != stock {
					value, source := k.estimator.Cost(l.Name, resource)
					costs[resource] = wire.Cost{Value: value, Source: string(source)}
				}
			}
		}
		for resource, v := range l.TaskCosts(k.period) {
			costs[resource] = wire.Cost{Value: v, Source: declaredCost}
		}
		all[l.Name] = costs
	}
	return all
}

// stock is the resource that tasks don't use up.
const stock = "memory"

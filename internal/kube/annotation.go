// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/edgeweir/weir/internal/cluster"
)

// Prefix begins the names of Weir's annotations.
const Prefix = "edgeweir.io/"

// Annotation is one row of the table of annotations (docs/annotations.md).
type Annotation struct {
	// Name is without the prefix; cost.RESOURCE stands for one of each resource.
	Name string
	// On are the kinds of objects that may carry it.
	On                     []string
	Type, Default, Allowed string
	Example, Meaning       string
	// set takes a value into d, and says whether it is allowed.
	set func(d *declaration, value string) bool
	// everyResource annotations end their names with a resource's.
	everyResource bool
}

// declaration is what the annotations of one object say.
type declaration struct {
	service cluster.Service
	movable *bool
	node    cluster.Node
	cost    string // the resource whose cost is being set
}

var (
	onService = []string{"Service"}
	onNode    = []string{"Node"}
)

// Annotations are all of them, in the order of the documentation.
var Annotations = []Annotation{
	{Name: "mode", On: onService, Type: "mode", Default: "enforce", Allowed: "off, observe or enforce", Example: "observe",
		Meaning: "whether the agents obey the optimizer's ratios (enforce), they are only computed (observe), or not even that (off)",
		set:     func(d *declaration, v string) bool { return setMode(&d.service.Mode, v) }},
	{Name: "scheduler", On: onService, Type: "IPVS scheduler", Default: "auto", Allowed: "one of " + strings.Join(cluster.Schedulers, ", "), Example: "wrr",
		Meaning: "how IPVS takes the next pod; auto chooses sed or wrr at each node by the traffic that it sees",
		set: func(d *declaration, v string) bool {
			return slices.Contains(cluster.Schedulers, v) && setTo(&d.service.Scheduler, v)
		}},
	{Name: "sla", On: onService, Type: "number", Default: "none: not scaled", Allowed: "a number over 0", Example: "40",
		Meaning: "tasks per second that one pod serves as promised",
		set:     func(d *declaration, v string) bool { return setAmount(&d.service.SLA, v, positive) }},
	{Name: "min-replicas", On: onService, Type: "whole number", Default: "1", Allowed: "a whole number of 1 to 1000000", Example: "2",
		Meaning: "pods that scaling leaves at least",
		set:     func(d *declaration, v string) bool { return setCount(&d.service.MinReplicas, v) }},
	{Name: "max-replicas", On: onService, Type: "whole number", Default: "none: no maximum", Allowed: "a whole number of 1 to 1000000, at least min-replicas", Example: "20",
		Meaning: "pods that scaling makes at most",
		set:     func(d *declaration, v string) bool { return setCount(&d.service.MaxReplicas, v) }},
	{Name: "energy-cost", On: onService, Type: "number", Default: "1", Allowed: "a number of at least 0", Example: "2.5",
		Meaning: "what a running pod costs, beside the pods of other services",
		set:     func(d *declaration, v string) bool { return setCost(&d.service.EnergyCost, v) }},
	{Name: "deploy-cost", On: onService, Type: "number", Default: "1", Allowed: "a number of at least 0", Example: "0.5",
		Meaning: "what starting one more pod costs",
		set:     func(d *declaration, v string) bool { return setCost(&d.service.DeployCost, v) }},
	{Name: "scaling-mode", On: onService, Type: "mode", Default: "observe", Allowed: "off, observe or enforce", Example: "enforce",
		Meaning: "whether the replicas are set, only planned, or not planned",
		set:     func(d *declaration, v string) bool { return setMode(&d.service.ScalingMode, v) }},
	{Name: "migration-mode", On: onService, Type: "mode", Default: "observe", Allowed: "off, observe or enforce", Example: "enforce",
		Meaning: "whether the pods are moved, their moves only planned, or not planned",
		set:     func(d *declaration, v string) bool { return setMode(&d.service.MigrationMode, v) }},
	{Name: "movable", On: []string{"Service", "Pod"}, Type: "truth value", Default: "by what the pod is", Allowed: "true or false", Example: "false",
		Meaning: "false: the pods stay where they are; true: they may move in spite of local storage, volume claims or the cluster autoscaler's safe-to-evict. On a pod template it holds for the template's pods, and goes before the Service's",
		set: func(d *declaration, v string) bool {
			truth := v == "true"
			return (truth || v == "false") && setTo(&d.movable, &truth)
		}},
	{Name: "cost.RESOURCE", On: onService, Type: "quantity", Default: "estimated", Allowed: "a quantity of at least 0", Example: "20m", everyResource: true,
		Meaning: "what one task takes of a resource: `cost.cpu` in core-seconds, `cost.network` in bytes, `cost.memory` in byte-seconds, any other in units of it times seconds",
		set: func(d *declaration, v string) bool {
			var amount float64
			if !setAmount(&amount, v, natural) {
				return false
			}
			if d.service.Costs == nil {
				d.service.Costs = map[string]float64{}
			}
			d.service.Costs[d.cost] = amount
			return true
		}},
	{Name: "network", On: onNode, Type: "quantity", Default: "what the agent measures", Allowed: "a quantity over 0", Example: "125M",
		Meaning: "bytes per second that the node's network carries",
		set: func(d *declaration, v string) bool {
			var amount float64
			if !setAmount(&amount, v, positive) {
				return false
			}
			d.node.Capacity = map[string]float64{"network": amount}
			return true
		}},
	{Name: "pull-bandwidth", On: onNode, Type: "quantity", Default: "the optimizer's", Allowed: "a quantity over 0", Example: "20M",
		Meaning: "bytes per second at which the node pulls images",
		set:     func(d *declaration, v string) bool { return setAmount(&d.node.PullBandwidth, v, positive) }},
}

func setTo[T any](to *T, v T) bool {
	*to = v
	return true
}

func setMode(to *cluster.Mode, v string) bool {
	return slices.Contains(cluster.Modes, cluster.Mode(v)) && setTo(to, cluster.Mode(v))
}

func setCount(to *int, v string) bool {
	n, err := strconv.Atoi(v)
	return err == nil && n >= 1 && n <= 1e6 && setTo(to, n)
}

func setCost(to **float64, v string) bool {
	var amount float64
	return setAmount(&amount, v, natural) && setTo(to, &amount)
}

func positive(v float64) bool { return v > 0 }
func natural(v float64) bool  { return v >= 0 }

// quantity is what of Kubernetes' quantities is read: its parser takes exponents of
// any size, and a long time for them.
var quantity = regexp.MustCompile(`^([0-9]{1,20}(\.[0-9]{0,20})?|\.[0-9]{1,20})([eE][+-]?[0-9]{1,2}|[numkMGTPE]|[KMGTPE]i)?$`)

// largest is more than any amount that makes sense.
const largest = 1e21

func setAmount(to *float64, text string, allowed func(float64) bool) bool {
	if !quantity.MatchString(text) {
		return false
	}
	q, err := resource.ParseQuantity(text)
	if err != nil {
		return false
	}
	v := q.AsApproximateFloat64()
	return v <= largest && allowed(v) && setTo(to, v)
}

// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"go.yaml.in/yaml/v3"
)

// Queries are what Prometheus is asked: one PromQL expression per resource for
// all pods, and one per resource for all nodes.
type Queries struct {
	// Window replaces $window: over how long rates are taken. It must hold two
	// scrapes.
	Window time.Duration `yaml:"window"`
	// Labels name the labels of a result that name its object.
	Labels Labels `yaml:"labels"`
	// Pods and Nodes hold expressions by resource.
	Pods  map[string]string `yaml:"pods"`
	Nodes map[string]string `yaml:"nodes"`
	// Stamps ask when each pod and each node was last scraped, in seconds since
	// 1970. Empty: what the other expressions answer is taken as fresh.
	Stamps Stamps `yaml:"stamps"`
}

// Labels are the labels that name an object. A node is known by its name, or by
// one of its addresses; a port behind it is cut off.
type Labels struct {
	Namespace string `yaml:"namespace"`
	Pod       string `yaml:"pod"`
	Node      string `yaml:"node"`
}

// Stamps are expressions for the time of the last scrape.
type Stamps struct {
	Pods  string `yaml:"pods"`
	Nodes string `yaml:"nodes"`
}

// virtual matches the devices of a node that carry what its uplinks carry, too.
const virtual = `lo|veth.*|cali.*|cni.*|flannel.*|cilium.*|lxc.*|docker.*|br-.*|weir.*|kube-ipvs.*|nodelocaldns|dummy.*|vxlan.*|tun.*|tap.*`

// DefaultQueries are for cAdvisor, as the kubelet serves it, and node_exporter.
func DefaultQueries() Queries {
	const (
		pod  = `{container!="",pod!=""}`
		link = `{device!~"` + virtual + `"}`
		// A full-duplex link is full when one direction is.
		busier = `(%[1]s > %[2]s) or %[2]s`
	)
	rate := func(by, metric, of string) string {
		return "sum by (" + by + ") (rate(" + metric + of + "[$window]))"
	}
	const pods, nodes = "namespace, pod", "instance"
	return Queries{
		Window: time.Minute,
		Labels: Labels{Namespace: "namespace", Pod: "pod", Node: "instance"},
		Pods: map[string]string{
			"cpu":    rate(pods, "container_cpu_usage_seconds_total", pod),
			"memory": "sum by (" + pods + ") (container_memory_working_set_bytes" + pod + ")",
			"network": fmt.Sprintf(busier, rate(pods, "container_network_receive_bytes_total", `{pod!="",interface!="lo"}`),
				rate(pods, "container_network_transmit_bytes_total", `{pod!="",interface!="lo"}`)),
		},
		Nodes: map[string]string{
			"cpu":    rate(nodes, "node_cpu_seconds_total", `{mode!~"idle|iowait|steal"}`),
			"memory": "sum by (" + nodes + ") (node_memory_MemTotal_bytes - node_memory_MemAvailable_bytes)",
			"network": fmt.Sprintf(busier, rate(nodes, "node_network_receive_bytes_total", link),
				rate(nodes, "node_network_transmit_bytes_total", link)),
		},
		Stamps: Stamps{
			Pods:  "max by (" + pods + ") (timestamp(container_cpu_usage_seconds_total" + pod + "))",
			Nodes: "max by (" + nodes + ") (timestamp(node_memory_MemTotal_bytes))",
		},
	}
}

// LoadQueries reads a YAML file over the defaults: a resource that it names
// replaces the default, or removes it where its expression is empty. path is
// empty for the defaults alone.
func LoadQueries(path string) (Queries, error) {
	q := DefaultQueries()
	if path == "" {
		return q, nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return q, fmt.Errorf("queries: %w", err)
	}
	d := yaml.NewDecoder(bytes.NewReader(data))
	d.KnownFields(true)
	if err := d.Decode(&q); err != nil && !errors.Is(err, io.EOF) {
		return q, fmt.Errorf("queries %s: %s", path, strings.ReplaceAll(err.Error(), "\n", ""))
	}
	if err := q.check(); err != nil {
		return q, fmt.Errorf("queries %s: %w", path, err)
	}
	return q, nil
}

// check removes what is empty and refuses what can't work.
func (q *Queries) check() error {
	for _, of := range []map[string]string{q.Pods, q.Nodes} {
		maps.DeleteFunc(of, func(_, expression string) bool { return strings.TrimSpace(expression) == "" })
	}
	if q.Window < time.Second || q.Window > time.Hour {
		return fmt.Errorf("window: %s: 1s to 1h", q.Window)
	}
	labels := []struct{ field, value string }{{"namespace", q.Labels.Namespace}, {"pod", q.Labels.Pod}, {"node", q.Labels.Node}}
	for _, l := range labels {
		if !model.LegacyValidation.IsValidLabelName(l.value) {
			return fmt.Errorf("labels.%s: %q: a label's name", l.field, l.value)
		}
	}
	if len(q.Pods)+len(q.Nodes) == 0 {
		return errors.New("pods, nodes: none: at least one expression")
	}
	return nil
}

// query is one expression, and what its answer is.
type query struct {
	resource   string // empty: when the objects were scraped
	expression string
	pods       bool // else nodes
}

// all returns the expressions, the stamps first.
func (q *Queries) all() []query {
	queries := []query{{"", q.Stamps.Pods, true}, {"", q.Stamps.Nodes, false}}
	for _, resource := range slices.Sorted(maps.Keys(q.Pods)) {
		queries = append(queries, query{resource, q.Pods[resource], true})
	}
	for _, resource := range slices.Sorted(maps.Keys(q.Nodes)) {
		queries = append(queries, query{resource, q.Nodes[resource], false})
	}
	queries = slices.DeleteFunc(queries, func(q query) bool { return q.expression == "" })
	for i := range queries {
		queries[i].expression = strings.ReplaceAll(queries[i].expression, "$window", model.Duration(q.Window).String())
	}
	return queries
}

// name returns the object of a result's labels, empty where they name none.
func (l Labels) name(metric model.Metric, pods bool) string {
	if !pods {
		return string(metric[model.LabelName(l.Node)])
	}
	namespace, pod := metric[model.LabelName(l.Namespace)], metric[model.LabelName(l.Pod)]
	if namespace == "" || pod == "" {
		return ""
	}
	return string(namespace + "/" + pod)
}

// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"fmt"
	"math"
	"net/netip"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// FieldError tells which field of a cluster file is wrong, its value, and what
// is allowed there.
type FieldError struct {
	Path, Value, Allowed string
}

func (e *FieldError) Error() string {
	return fmt.Sprintf("%s: %s: %s", e.Path, e.Value, e.Allowed)
}

// none stands for the value of an empty list.
type none struct{}

func (none) String() string { return "none" }

func wrong(path string, value any, allowed string) error {
	text := fmt.Sprint(value)
	if _, isString := value.(string); isString {
		text = fmt.Sprintf("%q", text)
	}
	return &FieldError{Path: path, Value: text, Allowed: allowed}
}

var (
	nodeName     = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`)
	objectName   = regexp.MustCompile(`^([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?/)?[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`)
	workloadName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?/[A-Za-z0-9]{1,63}/[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`)
	serviceName  = regexp.MustCompile(`^([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?/)?[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?(:[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)?$`)
)

// Version is the file format that this build reads.
const Version = 1

func (c *Cluster) validate() error {
	if c.Version != Version {
		return wrong("version", c.Version, fmt.Sprintf("this build reads %d", Version))
	}
	if !nodeName.MatchString(c.Name) {
		return wrong("name", c.Name, "lower-case letters, digits, - and .")
	}
	if len(c.Nodes) == 0 {
		return wrong("nodes", none{}, "at least one node")
	}
	if err := c.validateNodes(); err != nil {
		return err
	}
	if err := c.validatePods(); err != nil {
		return err
	}
	return c.validateServices()
}

func (c *Cluster) validateNodes() error {
	seen := map[string]bool{}
	for i, n := range c.Nodes {
		at := fmt.Sprintf("nodes[%d]", i)
		if !nodeName.MatchString(n.Name) {
			return wrong(at+".name", n.Name, "lower-case letters, digits, - and .")
		}
		if seen[n.Name] {
			return wrong(at+".name", n.Name, "a name that no other node has")
		}
		seen[n.Name] = true
		for j, a := range n.Addresses {
			if !Usable(a) {
				return wrong(fmt.Sprintf("%s.addresses[%d]", at, j), a, "a unicast address")
			}
		}
		for j, p := range n.PodCIDRs {
			if !p.IsValid() || p != p.Masked() {
				return wrong(fmt.Sprintf("%s.podCIDRs[%d]", at, j), p, "a network without host bits")
			}
		}
		if err := validateNodeAmounts(at, n); err != nil {
			return err
		}
	}
	return nil
}

func validateNodeAmounts(at string, n Node) error {
	return cmp.Or(
		validateAmounts(at+".capacity", n.Capacity),
		validateAmounts(at+".allocatable", n.Allocatable),
		validateAmounts(at+".requested", n.Requested),
		validateAmounts(at+".weights", n.Weights),
		validateAmount(at+".pullBandwidth", n.PullBandwidth),
	)
}

func (c *Cluster) validatePods() error {
	names, addresses := map[string]bool{}, map[netip.Addr]string{}
	for i, p := range c.Pods {
		at := fmt.Sprintf("pods[%d]", i)
		if !objectName.MatchString(p.Name) {
			return wrong(at+".name", p.Name, "namespace/name in lower-case letters, digits, - and .")
		}
		if names[p.Name] {
			return wrong(at+".name", p.Name, "a name that no other pod has")
		}
		names[p.Name] = true
		if _, ok := c.Node(p.Node); !ok {
			return wrong(at+".node", p.Node, "a node of this file")
		}
		if err := validatePodAddresses(at, p, addresses); err != nil {
			return err
		}
		if err := c.validatePlacement(at, p); err != nil {
			return err
		}
		if p.Cgroup != "" && !filepath.IsAbs(p.Cgroup) {
			return wrong(at+".cgroup", p.Cgroup, "an absolute path")
		}
		if u, err := url.Parse(p.Metrics); p.Metrics != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
			return wrong(at+".metrics", p.Metrics, "an http or https URL")
		}
	}
	return nil
}

// validatePlacement checks what places a pod: what it takes and where it may be.
func (c *Cluster) validatePlacement(at string, p Pod) error {
	for j, target := range p.Targets {
		if _, ok := c.Node(target); !ok {
			return wrong(fmt.Sprintf("%s.targets[%d]", at, j), target, "a node of this file")
		}
	}
	if p.Workload != "" && !workloadName.MatchString(p.Workload) {
		return wrong(at+".workload", p.Workload, "namespace/Kind/name")
	}
	return cmp.Or(
		validateAmounts(at+".capacity", p.Capacity),
		validateAmounts(at+".request", p.Request),
		validateAmount(at+".imageBytes", p.ImageBytes),
	)
}

func validatePodAddresses(at string, p Pod, seen map[netip.Addr]string) error {
	if len(p.Addresses) == 0 {
		return wrong(at+".addresses", none{}, "at least one address")
	}
	families := map[bool]bool{}
	for j, a := range p.Addresses {
		here := fmt.Sprintf("%s.addresses[%d]", at, j)
		if !Usable(a) {
			return wrong(here, a, "a unicast address")
		}
		if families[a.Is4()] {
			return wrong(here, a, "one address of each family")
		}
		families[a.Is4()] = true
		if other, taken := seen[a]; taken {
			return wrong(here, a, "an address that no other pod has; "+other+" has it")
		}
		seen[a] = p.Name
	}
	return nil
}

// Place is what a virtual server is known by.
type Place struct {
	Address  netip.Addr
	Port     uint16
	Protocol Protocol
}

func (p Place) String() string { return fmt.Sprintf("%s port %d/%s", p.Address, p.Port, p.Protocol) }

func (c *Cluster) validateServices() error {
	names, places, pods := map[string]bool{}, map[Place]string{}, c.PodsByName()
	for i, s := range c.Services {
		at := fmt.Sprintf("services[%d]", i)
		if !serviceName.MatchString(s.Name) {
			return wrong(at+".name", s.Name, "namespace/name:port in lower-case letters, digits, - and .")
		}
		if names[s.Name] {
			return wrong(at+".name", s.Name, "a name that no other service has")
		}
		names[s.Name] = true
		if err := validateChoices(at, s); err != nil {
			return err
		}
		if err := validatePlaces(at, s, places); err != nil {
			return err
		}
		if err := cmp.Or(validateAmounts(at+".costs", s.Costs), validateScaling(at, s)); err != nil {
			return err
		}
		if err := validateEndpoints(at, s, pods); err != nil {
			return err
		}
	}
	return nil
}

func validateChoices(at string, s Service) error {
	if s.Port == 0 {
		return wrong(at+".port", s.Port, "1 to 65535")
	}
	if p := []Protocol{TCP, UDP, SCTP}; !slices.Contains(p, s.Protocol) {
		return wrong(at+".protocol", string(s.Protocol), "TCP, UDP or SCTP")
	}
	if !slices.Contains(Schedulers, s.Scheduler) {
		return wrong(at+".scheduler", s.Scheduler, "one of "+strings.Join(Schedulers, ", "))
	}
	return cmp.Or(
		validateMode(at+".mode", s.Mode),
		validateMode(at+".migrationMode", s.MigrationMode),
		validateMode(at+".scalingMode", s.ScalingMode),
	)
}

func validateMode(at string, m Mode) error {
	if !slices.Contains(Modes, m) {
		return wrong(at, string(m), "off, observe or enforce")
	}
	return nil
}

func validateScaling(at string, s Service) error {
	if s.Workload != "" && !workloadName.MatchString(s.Workload) {
		return wrong(at+".workload", s.Workload, "namespace/Kind/name")
	}
	if s.MinReplicas < 1 {
		return wrong(at+".minReplicas", s.MinReplicas, "at least 1")
	}
	if s.MaxReplicas != 0 && s.MaxReplicas < s.MinReplicas {
		return wrong(at+".maxReplicas", s.MaxReplicas, fmt.Sprintf("at least minReplicas, %d, or 0 for no maximum", s.MinReplicas))
	}
	return cmp.Or(
		validateAmount(at+".sla", s.SLA),
		validateAmount(at+".energyCost", *s.EnergyCost),
		validateAmount(at+".deployCost", *s.DeployCost),
		validateAmounts(at+".podRequest", s.PodRequest),
	)
}

func validatePlaces(at string, s Service, seen map[Place]string) error {
	if len(s.Addresses) == 0 {
		return wrong(at+".addresses", none{}, "at least one address")
	}
	for j, a := range s.Addresses {
		here := fmt.Sprintf("%s.addresses[%d]", at, j)
		if !Usable(a) {
			return wrong(here, a, "a unicast address")
		}
		key := Place{a, s.Port, s.Protocol}
		if other, taken := seen[key]; taken {
			return wrong(here, key, "an address and port that no other service has; "+other+" has them")
		}
		seen[key] = s.Name
	}
	return nil
}

func validateEndpoints(at string, s Service, pods map[string]Pod) error {
	if len(s.Endpoints) == 0 {
		return wrong(at+".endpoints", none{}, "at least one pod; remove the service to stop serving it")
	}
	seen := map[string]bool{}
	for j, e := range s.Endpoints {
		here := fmt.Sprintf("%s.endpoints[%d]", at, j)
		pod, known := pods[e.Pod]
		if !known {
			return wrong(here+".pod", e.Pod, "a pod of this file")
		}
		if seen[e.Pod] {
			return wrong(here+".pod", e.Pod, "each pod once in a service")
		}
		seen[e.Pod] = true
		if e.Port == 0 {
			return wrong(here+".port", e.Port, "1 to 65535")
		}
		for _, a := range s.Addresses {
			if _, ok := pod.Address(a); !ok {
				return wrong(here+".pod", e.Pod, fmt.Sprintf("a pod with an address of the family of %s", a))
			}
		}
	}
	return nil
}

func validateAmounts(at string, amounts map[string]float64) error {
	for resource, v := range amounts {
		if resource == "" {
			return wrong(at, resource, "a resource's name")
		}
		if err := validateAmount(at+"."+resource, v); err != nil {
			return err
		}
	}
	return nil
}

func validateAmount(at string, v float64) error {
	if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
		return wrong(at, v, "a finite number of at least 0")
	}
	return nil
}

// Usable says whether a node or a pod can be reached at a.
func Usable(a netip.Addr) bool {
	return a.IsValid() && !a.Is4In6() && a.Zone() == "" && !a.IsUnspecified() && !a.IsLoopback() && !a.IsMulticast() && !a.IsLinkLocalUnicast()
}

// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/edgeweir/weir/internal/cluster"
	"github.com/edgeweir/weir/internal/store"
	"github.com/edgeweir/weir/internal/wire"
)

// status is what Redis holds of one cluster.
type status struct {
	Cluster  string                   `json:"cluster"`
	Plan     *wire.Plan               `json:"plan"`
	Arrivals map[string]wire.Arrivals `json:"arrivals"`
	Splits   map[string]wire.Share    `json:"splits"`
	Problems []string                 `json:"problems,omitempty"`
}

func newStatus() *cobra.Command {
	var file string
	var redis store.Options
	var out output
	c := &cobra.Command{
		Use:   "status",
		Short: "Show the last plan, what agents report and how services are split",
		Example: "  weirctl status --cluster-file cluster.yaml --redis 10.0.0.5:6379\n" +
			"  weirctl status --cluster-file cluster.yaml -o json | jq .plan.dispatch.why",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := cluster.Load(file)
			if err != nil {
				return err
			}
			s, err := readStatus(cmd.Context(), c, redis)
			if err != nil {
				return err
			}
			return out.write(cmd.OutOrStdout(), s, func(w io.Writer) { s.tables(w, c, time.Now()) })
		},
	}
	c.Flags().StringVar(&file, "cluster-file", "", "static cluster file (required)")
	redis.AddFlags(c.Flags())
	out.addFlag(c)
	if err := c.MarkFlagRequired("cluster-file"); err != nil {
		panic(err) // the flag is defined above
	}
	return c
}

// readStatus reads all there is; what can't be used is told under Problems.
func readStatus(ctx context.Context, c *cluster.Cluster, options store.Options) (*status, error) {
	redis, err := store.Open(c.Name, options)
	if err != nil {
		return nil, err
	}
	defer redis.Close()
	if err := redis.Ping(ctx); err != nil {
		return nil, fmt.Errorf("%w (is --redis right?)", err)
	}
	s := &status{Cluster: c.Name}
	note := func(err error) {
		if err != nil {
			s.Problems = append(s.Problems, strings.Split(err.Error(), "\n")...)
		}
	}
	s.Plan, err = redis.Plan(ctx)
	note(err)
	var nodes, services []string
	for _, n := range c.Nodes {
		nodes = append(nodes, n.Name)
	}
	for _, l := range c.Services {
		services = append(services, l.Name)
	}
	s.Arrivals, err = redis.Arrivals(ctx, nodes)
	note(err)
	view, err := redis.View(ctx, "", "", services)
	note(err)
	s.Splits = view.Shares
	return s, nil
}

func (s *status) tables(w io.Writer, c *cluster.Cluster, now time.Time) {
	s.plan(w, now)
	nodes := newTable(w, "NODE", "ZONE", "REPORTED", "COUNTS BY", "AGENT", "TASKS", "TOTAL")
	for _, n := range c.Nodes {
		a, ok := s.Arrivals[n.Name]
		if !ok {
			nodes.AppendRow([]any{n.Name, n.Zone, "silent", "", "", "", ""})
			continue
		}
		var tasks, total uint64
		for _, l := range a.Services {
			tasks, total = tasks+l.Tasks, total+l.Total
		}
		nodes.AppendRow([]any{n.Name, n.Zone, ago(now, a.End), a.Attachment, a.Agent, tasks, total})
	}
	nodes.Render()
	fmt.Fprintln(w)
	services := newTable(w, "SERVICE", "POD", "NODE", "RATIO", "ADMITTED", "COST OF A TASK")
	pods := c.PodsByName()
	for _, l := range c.Services {
		split, ok := s.Splits[l.Name]
		if !ok {
			services.AppendRow([]any{l.Name, "", "", "no split", "", ""})
			continue
		}
		for i, pod := range slices.Sorted(maps.Keys(split.Pods)) {
			row := []any{"", pod, pods[pod].Node, fmt.Sprintf("%.3f", split.Pods[pod]), "", ""}
			if i == 0 {
				row[0], row[4], row[5] = l.Name, fmt.Sprintf("%.3f", split.Admitted), s.costs(l.Name)
			}
			services.AppendRow(row)
		}
	}
	services.Render()
	for _, p := range s.Problems {
		fmt.Fprintln(w, "problem:", p)
	}
}

func (s *status) plan(w io.Writer, now time.Time) {
	if s.Plan == nil || s.Plan.Dispatch == nil {
		fmt.Fprintf(w, "cluster %s: no plan yet; is the optimizer running?\n\n", s.Cluster)
		return
	}
	d := s.Plan.Dispatch
	fmt.Fprintf(w, "cluster %s, plan of %s, epoch %d: %s, served %.0f of %.0f tasks a period, fullest pod at %.2f\n",
		s.Cluster, ago(now, s.Plan.At), s.Plan.Epoch, d.Status, d.Served, d.Arrived, d.MaxUtilisation)
	for _, line := range s.Plan.Degraded {
		fmt.Fprintln(w, "degraded:", line)
	}
	for _, line := range d.Why {
		fmt.Fprintln(w, "why:", line)
	}
	fmt.Fprintln(w)
}

func (s *status) costs(service string) string {
	if s.Plan == nil || s.Plan.Dispatch == nil {
		return ""
	}
	costs := s.Plan.Dispatch.TaskCosts[service]
	var parts []string
	for _, resource := range slices.Sorted(maps.Keys(costs)) {
		// A cost is per period; what people know is what one task takes.
		parts = append(parts, fmt.Sprintf("%s %.4g (%s)", resource, costs[resource].Value*s.Plan.Seconds, costs[resource].Source))
	}
	return strings.Join(parts, ", ")
}

func ago(now, then time.Time) string {
	return max(now.Sub(then), 0).Round(100*time.Millisecond).String() + " ago"
}

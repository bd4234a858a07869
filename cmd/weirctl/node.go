// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/edgeweir/weir/internal/wire"
)

// maxStatus bounds an agent's answer, in bytes.
const maxStatus = 64 << 20

func newNode() *cobra.Command {
	var url string
	var out output
	c := &cobra.Command{
		Use:     "node",
		Short:   "Show one node's virtual servers: ratios, weights, measured shares",
		Example: "  weirctl node --admin http://127.0.0.1:9420",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := fetchStatus(cmd.Context(), url)
			if err != nil {
				return err
			}
			return out.write(cmd.OutOrStdout(), s, func(w io.Writer) { nodeTables(w, s, time.Now()) })
		},
	}
	c.Flags().StringVar(&url, "admin", "http://127.0.0.1:9420", "the agent's admin port")
	out.addFlag(c)
	return c
}

func fetchStatus(ctx context.Context, url string) (*wire.AgentStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/status", nil)
	if err != nil {
		return nil, fmt.Errorf("--admin: %w", err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("%w (is the agent running, and --admin right?)", err)
	}
	defer response.Body.Close()
	var s *wire.AgentStatus
	if err := json.NewDecoder(io.LimitReader(response.Body, maxStatus)).Decode(&s); err != nil {
		return nil, fmt.Errorf("%s/status: %w", url, err)
	}
	if s == nil {
		return nil, fmt.Errorf("%s/status: the agent has programmed nothing yet", url)
	}
	return s, nil
}

func nodeTables(w io.Writer, s *wire.AgentStatus, now time.Time) {
	fmt.Fprintf(w, "node %s, agent %s, counting by %s, optimizer heard %s before %s (period %d)\n",
		s.Node, s.Version, s.Attachment, s.SilentFor, ago(now, s.At), s.Period)
	if s.Stale {
		fmt.Fprintln(w, "degraded: the optimizer is silent, ratios drift to equal ones")
	}
	if s.Draining > 0 {
		fmt.Fprintf(w, "draining: %d pods that have gone finish what they have\n", s.Draining)
	}
	fmt.Fprintln(w)
	t := newTable(w, "SERVICE", "ADDRESS", "SCHEDULER", "IN FLIGHT", "TASKS", "POD", "RATIO", "WEIGHT", "MEASURED", "ACTIVE")
	for _, v := range s.Services {
		for i, pod := range slices.Sorted(maps.Keys(v.Pods)) {
			p := v.Pods[pod]
			row := []any{"", "", "", "", "", pod, fmt.Sprintf("%.3f", p.Ratio), p.Weight, fmt.Sprintf("%.3f", p.Measured), p.Active}
			if i == 0 {
				row[0], row[1], row[2] = v.Service, v.Address, v.Scheduler
				row[3], row[4] = fmt.Sprintf("%.2f", v.InFlight), v.Tasks
			}
			t.AppendRow(row)
		}
	}
	t.Render()
}

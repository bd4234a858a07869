// SPDX-License-Identifier: Apache-2.0

package model

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// BenchmarkMigrate reports what a plan of one run reaches within its time limit.
func BenchmarkMigrate(b *testing.B) {
	for _, c := range []struct {
		nodes, pods, maxMoves int
		limit                 time.Duration
	}{
		{5, 20, 5, 5 * time.Second}, {5, 20, 0, 5 * time.Second}, {10, 50, 5, 10 * time.Second}, {10, 50, 10, 10 * time.Second}, {10, 50, 0, 10 * time.Second},
		{10, 100, 10, 2 * time.Second}, {100, 1000, 100, 2 * time.Second}, {100, 1000, 0, 2 * time.Second}, {1000, 10000, 200, 10 * time.Second},
	} {
		for _, cw := range []float64{1, float64(c.nodes)} {
			s := spread(c.nodes, c.pods, c.maxMoves, 1)
			s.Migration.TimeLimit, s.Migration.ClusterWeight = Duration(c.limit), cw
			b.Run(fmt.Sprintf("%dx%d/moves%d/clusterWeight%g", c.nodes, c.pods, c.maxMoves, cw), func(b *testing.B) {
				var d *MigrationDecision
				for b.Loop() {
					var err error
					if d, err = Migrate(context.Background(), s); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(100*d.Gap, "gap%")
				b.ReportMetric(100*d.After/d.Before, "after%")
				b.ReportMetric(float64(len(d.Moves)), "moves")
			})
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

// Package model holds the optimizer's three models as pure functions from a Snapshot to decisions.
//
// Notation (design 3), with the names the code uses:
//
//	l, n, p, k      service, counting node, pod, resource
//	λ_ln            Arrival.Tasks: tasks of l expected at n in the next period
//	r_lk, r_l^net   instance.cost, instance.netCost: what one task a period adds to consumption
//	A_pk            instance.size: capacity of p, +Inf where it has none
//	base_pk         instance.base: max(0, a'_pk − Σ_l r_lk tasks_lp), what tasks did not cause
//	room_pk         instance.room: max(0, maxUtilisation · A_pk − base_pk)
//	y_lnp           the share of λ_ln that goes to p
//
// Dispatch is solved in collapsed form. A *class* is all demand of one service that may go to the same set of
// pods; only its total matters to the pods, and only arrivals at nodes whose network can bind matter by
// themselves. So the variables are, per class c: its pooled tasks, x_cn at each binding node, g_c to the pods
// that only c uses, and f_cp to each pod that c shares. Classes that share no pod and no binding node are
// solved apart (component.go).
//
// Levels: u_p(q) = max over rate resources of (base_pk + r_lk q)/A_pk. Its inverse, the tasks that p may hold at
// level t, is level.go's tasksAt; water-filling finds the t at which a set of pods holds a given total.
//
// Migration's notation is at fleet (migration_fleet.go), how its objective falls apart into squares at square
// (migration_square.go), and why any prices prove a bound at prices (migration_price.go). Scaling's is at
// workload (scaling_workload.go), its integer programme at program (scaling_program.go).
package model

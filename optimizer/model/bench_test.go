// SPDX-License-Identifier: Apache-2.0

package model

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
)

// cluster draws a snapshot of the size and density that the benchmarks name: `density` of the pairs have
// demand, `binding` of the networks bind, load is the demand over what all pods can serve.
func cluster(services, nodes, podsPerService int, density, binding, load float64) *Snapshot {
	r := rand.New(rand.NewPCG(1, uint64(services)))
	s := NewSnapshot()
	for n := range nodes {
		node := newNode()
		node.Name, node.Zone = fmt.Sprintf("node-%d", n), fmt.Sprintf("zone-%d", n%5)
		node.Capacity = Quantities{"cpu": 1e6, "memory": 1e15, NetworkResource: 1e15}
		s.Nodes = append(s.Nodes, node)
	}
	net := make([]float64, nodes)
	for l := range services {
		v := newService()
		v.Name = fmt.Sprintf("default/service-%d:http", l)
		cpu, bytes := 0.002+0.004*r.Float64(), 1000+9000*r.Float64()
		v.TaskCost = Quantities{"cpu": cpu, "memory": 1e5, NetworkResource: bytes}
		s.Services = append(s.Services, v)
		room := 0.0
		for p := range podsPerService {
			pod := newPod()
			pod.Name, pod.Services = fmt.Sprintf("default/service-%d-%d", l, p), []string{v.Name}
			pod.Node = s.Nodes[r.IntN(nodes)].Name
			pod.Capacity = Quantities{"cpu": 0.25 * float64(1+r.IntN(4)), "memory": 5e8}
			pod.Used = Quantities{"cpu": 0.05 * r.Float64(), "memory": 1e8}
			room += (pod.Capacity["cpu"] - pod.Used["cpu"]) / cpu
			s.Pods = append(s.Pods, pod)
		}
		for n := range nodes {
			if r.Float64() >= density {
				continue
			}
			tasks := 2 * r.Float64() * load * room / (density * float64(nodes))
			net[n] += tasks * bytes
			s.Arrivals = append(s.Arrivals, Arrival{Service: v.Name, Node: s.Nodes[n].Name, Tasks: tasks, Last: tasks})
		}
	}
	for n := range nodes {
		if r.Float64() < binding {
			s.Nodes[n].Capacity[NetworkResource] = net[n] * (0.5 + 0.4*r.Float64())
		}
	}
	return s
}

func BenchmarkDispatch(b *testing.B) {
	for _, c := range []struct {
		services, nodes, pods  int
		density, binding, load float64
	}{
		{50, 50, 20, 1, 0.05, 0.7}, {50, 50, 20, 1, 0.05, 1.1}, {50, 50, 20, 1, 1, 0.7}, {100, 100, 20, 1, 0.05, 0.7},
		{1000, 1000, 20, 0.1, 0.05, 0.7}, {1000, 1000, 20, 1, 0, 0.7},
	} {
		s := cluster(c.services, c.nodes, c.pods, c.density, c.binding, c.load)
		for _, stages := range [][]Stage{{StageThroughput}, {StageThroughput, StageBalance}, {StageThroughput, StageBalance, StageLocality}} {
			s.Dispatch.Stages = stages
			b.Run(fmt.Sprintf("%dx%dx%d/density%g/binding%g/load%g/%s", c.services, c.nodes, c.pods, c.density, c.binding,
				c.load, stages[len(stages)-1]), func(b *testing.B) {
				for b.Loop() {
					if _, err := Dispatch(context.Background(), s); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func BenchmarkCodec(b *testing.B) {
	s := cluster(1000, 1000, 20, 0.1, 0.05, 0.7)
	text, err := json.Marshal(s)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("decode", func(b *testing.B) {
		b.SetBytes(int64(len(text)))
		b.ReportAllocs()
		for b.Loop() {
			if _, err := DecodeSnapshot(text); err != nil {
				b.Fatal(err)
			}
		}
	})
	d, err := Dispatch(context.Background(), s)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("encode", func(b *testing.B) {
		for b.Loop() {
			if err := (&Decisions{Dispatch: d}).WriteJSON(io.Discard); err != nil {
				b.Fatal(err)
			}
		}
	})
}

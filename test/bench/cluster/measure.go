// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/edgeweir/weir/test/cluster"
)

// settle is for how many periods nothing is measured after the optimizer's start:
// its first lists and cycles are not what every later period costs.
const settle = 3

// bed is what runs beside the cluster while it is measured.
type bed struct {
	c         *cluster.Cluster
	plan      plan
	redis     *cluster.Process
	redisAt   string
	optimizer *cluster.Process
	admin     string // the optimizer's metrics
	agents    *agents
}

func measure(ctx context.Context, c *cluster.Cluster, p plan, r *report) (err error) {
	b := &bed{c: c, plan: p}
	defer func() { err = errors.Join(err, b.stop()) }()
	if err := b.startRedis(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if b.agents, err = startAgents(ctx, b); err != nil {
		return err
	}
	if err := b.startOptimizer(ctx); err != nil {
		return err
	}
	say("settling for %d periods", settle)
	if err := sleep(ctx, settle*p.period); err != nil {
		return err
	}
	say("measuring %d periods without changes", p.quiet)
	if r.Quiet, err = b.window(ctx, p.quiet, 0); err != nil {
		return err
	}
	say("measuring %d periods while %d pods are replaced", p.busy, p.changes)
	if r.Busy, err = b.window(ctx, p.busy, p.changes); err != nil {
		return err
	}
	return b.finish(r)
}

func (b *bed) startRedis(ctx context.Context) error {
	address, err := freeAddress()
	if err != nil {
		return err
	}
	_, port, _ := net.SplitHostPort(address)
	b.redisAt = address
	b.redis = cluster.NewProcess("redis-server", filepath.Join(b.c.Dir, "redis.log"), func(context.Context) error {
		_, err := redisInfo(address)
		return err
	}, "redis-server", "--bind", "127.0.0.1", "--port", port, "--save", "", "--maxmemory-policy", "noeviction")
	return b.redis.Start(ctx)
}

func (b *bed) startOptimizer(ctx context.Context) error {
	config, err := b.c.ServiceAccount(ctx, system, optimizerAccount)
	if err != nil {
		return err
	}
	if err := grant(ctx, b.c, optimizerAccount, optimizerRules); err != nil {
		return err
	}
	kubeconfig, err := cluster.WriteKubeconfig(b.c.Dir, optimizerAccount, config)
	if err != nil {
		return err
	}
	if b.admin, err = freeAddress(); err != nil {
		return err
	}
	binary, err := filepath.Abs(b.plan.optimizer)
	if err != nil {
		return fmt.Errorf("find the optimizer: %w", err)
	}
	command := append([]string{binary, "run", "--kubeconfig", kubeconfig, "--cluster", clusterName, "--redis", b.redisAt, "--admin", b.admin,
		"--period", b.plan.period.String()}, b.plan.arguments...)
	b.optimizer = cluster.NewProcess("optimizer", filepath.Join(b.c.Dir, "optimizer.log"), cluster.Probe("http://"+b.admin+"/metrics", ""), command...)
	return b.optimizer.Start(ctx)
}

// window measures some periods, in which it replaces pods one after another.
func (b *bed) window(ctx context.Context, periods, changes int) (window, error) {
	w := window{Periods: periods, Changes: changes}
	before, err := b.read()
	if err != nil {
		return w, err
	}
	from := time.Now()
	length := time.Duration(periods) * b.plan.period
	if err := b.replace(ctx, changes, length); err != nil {
		return w, err
	}
	if err := sleep(ctx, time.Until(from.Add(length))); err != nil {
		return w, err
	}
	after, err := b.read()
	if err != nil {
		return w, err
	}
	w.compare(before, after)
	requests, err := b.c.Requests()
	if err != nil {
		return w, err
	}
	w.count(requests, from, from.Add(length))
	return w, nil
}

// replace deletes pods, evenly over the time; their ReplicaSets make others.
func (b *bed) replace(ctx context.Context, changes int, within time.Duration) error {
	if changes == 0 {
		return nil
	}
	pods, err := b.c.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{Limit: int64(changes)})
	if err != nil {
		return fmt.Errorf("list pods to replace: %w", err)
	}
	for _, pod := range pods.Items {
		if err := b.c.Client.CoreV1().Pods(namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{}); err != nil {
			return fmt.Errorf("replace pod %s: %w", pod.Name, err)
		}
		if err := sleep(ctx, within/time.Duration(changes)*8/10); err != nil {
			return err
		}
	}
	return nil
}

func (b *bed) stop() error {
	var errs []error
	for _, p := range []*cluster.Process{b.optimizer, b.redis} {
		if p != nil {
			errs = append(errs, p.Stop())
		}
	}
	return errors.Join(errs...)
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().String(), nil
}

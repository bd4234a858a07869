// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/edgeweir/weir/internal/wire"
	"github.com/edgeweir/weir/test/lab/topology"
)

// lab is the scenario's processes: Redis and the optimizer in the control
// namespace, an agent in each node's, the pods in theirs.
type lab struct {
	scenario Scenario
	*topology.Topology
	out      string       // folder of results and logs
	bin      string       // folder of the binaries
	work     string       // folder of what processes read: in memory, unlike out
	file     string       // cluster file
	password string       // file with Redis' password
	client   *http.Client // of the control namespace, keeps its connections
	pods     []*topology.Process
	peers    []*topology.Process // all but the pods
}

const redisPort, agentPort, optimizerPort = 6379, 9420, 9421

// open builds the network and starts everything but the pods.
func open(ctx context.Context, s Scenario, out, bin string) (*lab, error) {
	loadModules(ctx)
	work, err := os.MkdirTemp("", "weir-demo-")
	if err != nil {
		return nil, err
	}
	t, err := topology.Build(s.lab())
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(work))
	}
	l := &lab{scenario: s, Topology: t, out: out, bin: bin, work: work, file: filepath.Join(work, "cluster.yaml"), password: filepath.Join(work, "redis-password")}
	l.client = &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		DialContext: topology.Dialer(l.Control.Namespace), MaxIdleConnsPerHost: 1, DisableCompression: true,
	}}
	if err := l.start(ctx); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// Close ends the processes and takes everything away but the results.
func (l *lab) Close() error { return errors.Join(l.Topology.Close(), os.RemoveAll(l.work)) }

// modules are what agents and links use. Where the kernel loads each by itself it
// starts a modprobe for each, which takes seconds in an emulated machine.
var modules = []string{
	"veth", "bridge", "dummy", "ip_vs", "ip_vs_rr", "ip_vs_wrr", "ip_vs_sed", "ip_vs_wlc", "ip_vs_lc",
	"nf_tables", "nft_ct", "nft_masq", "nft_fib_inet", "nft_reject_inet", "nft_chain_nat", "nf_nat", "nf_conntrack",
}

// loadModules loads what this kernel has as modules; what it lacks shows later,
// where it is needed.
func loadModules(ctx context.Context) {
	_ = exec.CommandContext(ctx, "modprobe", append([]string{"--all", "--quiet"}, modules...)...).Run()
}

func (l *lab) start(ctx context.Context) error {
	if err := os.WriteFile(l.password, []byte(rand.Text()), 0o600); err != nil {
		return err
	}
	if err := writeCluster(l.file, l.scenario.cluster(l.Layout, variants[0])); err != nil {
		return err
	}
	if err := l.startRedis(ctx); err != nil {
		return err
	}
	redis := fmt.Sprintf("%s:%d", l.Control.IPv4, redisPort)
	common := []string{"--cluster-file", l.file, "--redis", redis, "--redis-password-file", l.password, "--period", l.scenario.Period.String()}
	for _, n := range l.Nodes {
		agent := []string{filepath.Join(l.bin, "nodeagent"), "--node", n.Name, "--admin", fmt.Sprintf("%s:%d", n.IPv4, agentPort), "--uplinks", "eth0", "--profile"}
		if err := l.peer("nodeagent", n.Namespace, n.Name, append(agent, common...)); err != nil {
			return err
		}
	}
	optimizer := []string{filepath.Join(l.bin, "optimizer"), "run", "--admin", fmt.Sprintf("%s:%d", l.Control.IPv4, optimizerPort)}
	return l.peer("optimizer", l.Control.Namespace, "optimizer", append(optimizer, common...))
}

func (l *lab) startRedis(ctx context.Context) error {
	secret, err := os.ReadFile(l.password)
	if err != nil {
		return err
	}
	// The password goes by a file: a command line can be read by everyone.
	config := filepath.Join(l.work, "redis.conf")
	text := fmt.Sprintf("bind %s\nport %d\nrequirepass %s\nsave \"\"\nappendonly no\nmaxmemory-policy noeviction\ndir %s\n", l.Control.IPv4, redisPort, secret, l.work)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return err
	}
	if err := l.peer("redis", l.Control.Namespace, "redis", []string{"redis-server", config}); err != nil {
		return err
	}
	return l.await(ctx, "redis", func(ctx context.Context) error {
		conn, err := topology.Dialer(l.Control.Namespace)(ctx, "tcp", fmt.Sprintf("%s:%d", l.Control.IPv4, redisPort))
		if err != nil {
			return err
		}
		return conn.Close()
	})
}

// peer starts a process that stays for the whole run.
func (l *lab) peer(name, namespace, log string, command []string) error {
	p, err := l.Start(topology.Spec{Name: name, Namespace: namespace, Command: command, Log: filepath.Join(l.out, log+".log")})
	if err != nil {
		return err
	}
	l.peers = append(l.peers, p)
	return nil
}

// startPods starts every pod anew: no phase inherits another's queues.
func (l *lab) startPods(ctx context.Context) error {
	for _, p := range l.pods {
		// It ends with an error where it drops waiting requests, as it should.
		_ = p.Stop(2 * time.Second)
	}
	l.pods = nil
	i := 0
	for _, service := range l.scenario.Services {
		for _, p := range service.Pods {
			command := []string{filepath.Join(l.bin, "lab"), "pod", "--name", p.Name, "--workers", fmt.Sprint(p.Workers),
				"--service", l.scenario.Service.String(), "--shape", fmt.Sprint(l.scenario.Shape), "--port", fmt.Sprint(podPort), "--metrics", fmt.Sprint(metricsPort),
				"--seed", fmt.Sprint(i), "--drain", "100ms"}
			started, err := l.Start(topology.Spec{Name: "server", Namespace: l.Pods[i].Namespace, Command: command, Log: filepath.Join(l.out, "pods.log")})
			if err != nil {
				return err
			}
			l.pods = append(l.pods, started)
			i++
		}
	}
	return l.await(ctx, "pods", func(ctx context.Context) error { _, err := l.samplePods(ctx); return err })
}

// await repeats check until it succeeds; a peer that ended meanwhile is told.
func (l *lab) await(ctx context.Context, what string, check func(context.Context) error) error {
	const limit = time.Minute
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		if dead := l.dead(); dead != nil {
			return dead
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s not ready within %s: %w; see the logs in %s", what, limit, err, l.out)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// dead returns an error when a process that should run has ended.
func (l *lab) dead() error {
	for _, p := range append(l.peers, l.pods...) {
		select {
		case <-p.Done():
			return fmt.Errorf("%s in %s has ended (%v); see %s", p.Spec.Name, p.Spec.Namespace, p.Err(), p.Spec.Log)
		default:
		}
	}
	return nil
}

// status asks the agent of node n for its state.
func (l *lab) status(ctx context.Context, n topology.Node) (*wire.AgentStatus, error) {
	var s *wire.AgentStatus
	if err := l.get(ctx, n.IPv4, agentPort, &s); err != nil {
		return nil, err
	}
	if s == nil {
		return nil, fmt.Errorf("agent of %s: nothing programmed yet", n.Name)
	}
	return s, nil
}

// optimizerPlan asks the optimizer for its last plan; nil: none yet.
func (l *lab) optimizerPlan(ctx context.Context) (*wire.Plan, error) {
	var p *wire.Plan
	err := l.get(ctx, l.Control.IPv4, optimizerPort, &p)
	return p, err
}

// get reads a component's /status from the control namespace.
func (l *lab) get(ctx context.Context, address netip.Addr, port uint16, into any) error {
	url := fmt.Sprintf("http://%s/status", netip.AddrPortFrom(address, port))
	return l.fetch(ctx, url, func(body io.Reader) error { return json.NewDecoder(body).Decode(into) })
}

// fetch reads a page in the control namespace.
func (l *lab) fetch(ctx context.Context, url string, read func(io.Reader) error) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := l.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, response.Status)
	}
	if err := read(response.Body); err != nil {
		return fmt.Errorf("%s: %w", url, err)
	}
	_, err = io.Copy(io.Discard, response.Body) // all read, the connection is kept
	return err
}

// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/edgeweir/weir/test/cluster/controlplane"
)

// auditPolicy writes a line when a watch begins and one when a request ends.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules: [{level: Metadata}]
`

// plan chooses ports and writes the command lines of all components.
func (c *Cluster) plan() error {
	ports, err := freePorts(5)
	if err != nil {
		return err
	}
	etcd, server, controllers, kwok, peer := ports[0], ports[1], ports[2], ports[3], ports[4]
	c.URL = "https://127.0.0.1:" + server
	c.Audit = filepath.Join(c.Dir, "audit.log")
	c.Config = c.ConfigFor(Admin)
	if c.Client, err = kubernetes.NewForConfig(c.Config); err != nil {
		return fmt.Errorf("admin's client: %w", err)
	}
	kubeconfigs := map[string]string{}
	for _, user := range []string{Admin, kwokUser, controllersUser, schedulerUser} {
		if kubeconfigs[user], err = c.KubeconfigFor(user); err != nil {
			return err
		}
	}
	c.Kubeconfig = kubeconfigs[Admin]
	policy := filepath.Join(c.state, "audit.yaml")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o644); err != nil {
		return fmt.Errorf("write the audit policy: %w", err)
	}
	stages, err := c.writeStages()
	if err != nil {
		return err
	}
	c.Etcd = c.process(controlplane.Etcd, Probe("http://127.0.0.1:"+etcd+"/health", ""), c.etcdArgs(etcd, peer)...)
	c.APIServer = c.process(controlplane.APIServer, Probe(c.URL+"/readyz", c.tokens[Admin]), c.apiServerArgs(etcd, server, policy)...)
	c.ControllerManager = c.process(controlplane.ControllerManager, Probe("https://127.0.0.1:"+controllers+"/healthz", ""),
		c.controllerArgs(controllers, kubeconfigs[controllersUser])...)
	c.Kwok = c.process(controlplane.Kwok, Probe("http://127.0.0.1:"+kwok+"/healthz", ""), kwokArgs(kwok, kubeconfigs[kwokUser], stages)...)
	c.Scheduler, err = c.planScheduler("kube-scheduler", c.options.SchedulerConfig)
	return err
}

func (c *Cluster) process(name string, ready func(context.Context) error, args ...string) *Process {
	return NewProcess(name, filepath.Join(c.Dir, name+".log"), ready, append([]string{c.release.Binary(name)}, args...)...)
}

func (c *Cluster) etcdArgs(client, peer string) []string {
	return []string{
		"--data-dir=" + filepath.Join(c.state, "etcd"), "--unsafe-no-fsync", "--log-level=warn",
		"--listen-client-urls=http://127.0.0.1:" + client, "--advertise-client-urls=http://127.0.0.1:" + client,
		"--listen-peer-urls=http://127.0.0.1:" + peer, "--initial-advertise-peer-urls=http://127.0.0.1:" + peer,
		"--initial-cluster=default=http://127.0.0.1:" + peer,
	}
}

func (c *Cluster) apiServerArgs(etcd, port, policy string) []string {
	return append([]string{
		"--etcd-servers=http://127.0.0.1:" + etcd,
		"--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--secure-port=" + port,
		// A loopback address cannot be an endpoint of the kubernetes Service.
		"--endpoint-reconciler-type=none",
		"--tls-cert-file=" + c.pki.certFile, "--tls-private-key-file=" + c.pki.keyFile,
		"--token-auth-file=" + filepath.Join(c.state, "tokens.csv"), "--authorization-mode=Node,RBAC",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + c.pki.accountKey, "--service-account-signing-key-file=" + c.pki.accountKey,
		"--service-cluster-ip-range=10.96.0.0/12",
		"--audit-policy-file=" + policy, "--audit-log-path=" + c.Audit, "--audit-log-maxsize=0",
	}, c.options.APIServerArgs...)
}

func (c *Cluster) controllerArgs(port, kubeconfig string) []string {
	return append([]string{
		"--bind-address=127.0.0.1", "--secure-port=" + port, "--cert-dir=" + filepath.Join(c.state, "controllers"),
		"--kubeconfig=" + kubeconfig, "--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
		"--leader-elect=false", "--use-service-account-credentials",
		"--service-account-private-key-file=" + c.pki.accountKey, "--root-ca-file=" + c.pki.caFile,
		// The defaults would take minutes to create thousands of pods.
		"--kube-api-qps=1000", "--kube-api-burst=2000", "--concurrent-replicaset-syncs=20", "--concurrent-deployment-syncs=20",
		"--concurrent-service-endpoint-syncs=10",
	}, c.options.ControllerArgs...)
}

func kwokArgs(port, kubeconfig string, stages []string) []string {
	args := []string{"--kubeconfig=" + kubeconfig, "--manage-all-nodes", "--server-address=127.0.0.1:" + port, "--node-lease-duration-seconds=40"}
	for _, stage := range stages {
		args = append(args, "--config="+stage)
	}
	return args
}

// StartScheduler starts a further scheduler; config is as Options.SchedulerConfig
// and needs a schedulerName of its own in its profile. Its audit user is that of
// the default scheduler.
func (c *Cluster) StartScheduler(ctx context.Context, name, config string) (*Process, error) {
	p, err := c.planScheduler(name, config)
	if err != nil {
		return nil, err
	}
	return p, p.Start(ctx)
}

func (c *Cluster) planScheduler(name, config string) (*Process, error) {
	ports, err := freePorts(1)
	if err != nil {
		return nil, err
	}
	kubeconfig, err := c.KubeconfigFor(schedulerUser)
	if err != nil {
		return nil, err
	}
	text, err := schedulerConfig(config, kubeconfig)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(c.Dir, name+".yaml")
	if err := os.WriteFile(file, text, 0o644); err != nil {
		return nil, fmt.Errorf("write the configuration of %s: %w", name, err)
	}
	p := NewProcess(name, filepath.Join(c.Dir, name+".log"), Probe("https://127.0.0.1:"+ports[0]+"/healthz", ""), c.release.Binary(controlplane.Scheduler),
		"--config="+file, "--bind-address=127.0.0.1", "--secure-port="+ports[0], "--cert-dir="+filepath.Join(c.state, name),
		"--authentication-kubeconfig="+kubeconfig, "--authorization-kubeconfig="+kubeconfig,
		"--authorization-always-allow-paths=/healthz,/readyz,/livez,/metrics")
	p.Metrics = "https://127.0.0.1:" + ports[0] + "/metrics"
	c.mu.Lock()
	c.schedulers = append(c.schedulers, p)
	c.mu.Unlock()
	return p, nil
}

// schedulerConfig sets the kubeconfig in config and turns leader election off: it
// would only delay the start.
func schedulerConfig(config, kubeconfig string) ([]byte, error) {
	fields := map[string]any{}
	if err := yaml.Unmarshal([]byte(config), &fields); err != nil {
		return nil, fmt.Errorf("read the scheduler's configuration: %w", err)
	}
	fields["apiVersion"], fields["kind"] = "kubescheduler.config.k8s.io/v1", "KubeSchedulerConfiguration"
	fields["leaderElection"] = map[string]any{"leaderElect": false}
	connection, _ := fields["clientConnection"].(map[string]any)
	if connection == nil {
		connection = map[string]any{"qps": 5000, "burst": 10000}
	}
	connection["kubeconfig"] = kubeconfig
	fields["clientConnection"] = connection
	return yaml.Marshal(fields)
}

// Probe returns a check that url answers 200. It does not verify certificates:
// the components make their own.
func Probe(url, token string) func(context.Context) error {
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		if token != "" {
			request.Header.Set("Authorization", "Bearer "+token)
		}
		answer, err := client.Do(request)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		if answer.StatusCode == http.StatusOK {
			return nil
		}
		text, _ := io.ReadAll(io.LimitReader(answer.Body, 2000))
		return fmt.Errorf("%s: %s: %s", url, answer.Status, strings.TrimSpace(string(text)))
	}
}

// freePorts returns n loopback ports at which nothing listens now.
func freePorts(n int) ([]string, error) {
	ports := make([]string, n)
	for i := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		defer l.Close() // all at the end, so that they differ
		ports[i] = strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

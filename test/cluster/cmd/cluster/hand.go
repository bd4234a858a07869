// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/edgeweir/weir/test/cluster"
)

// The cluster run by hand lies in this folder of the module, which must be the
// working folder.
const (
	handDir   = "out/cluster/hand"
	pidFile   = handDir + "/pid"
	readyFile = handDir + "/kubeconfig"
	logFile   = "out/cluster/hand.log"
	upLimit   = 3 * time.Minute
	downLimit = time.Minute
)

func upCommand() *cobra.Command {
	var nodes int
	cmd := &cobra.Command{Use: "up", Short: "start a cluster in the background and print its kubeconfig", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return up(cmd.Context(), nodes) }}
	cmd.Flags().IntVar(&nodes, "nodes", 5, "how many kwok nodes")
	return cmd
}

func runCommand() *cobra.Command {
	var nodes int
	cmd := &cobra.Command{Use: "run", Short: "run a cluster until interrupted", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), nodes) }}
	cmd.Flags().IntVar(&nodes, "nodes", 5, "how many kwok nodes")
	return cmd
}

func downCommand() *cobra.Command {
	return &cobra.Command{Use: "down", Short: "stop the cluster that up started", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return down() }}
}

// up starts this program again, detached, as run, and waits until it is ready.
func up(ctx context.Context, nodes int) error {
	if pid := recorded(); pid != 0 {
		return fmt.Errorf("a cluster runs already as process %d, kubeconfig %s: make cluster-down stops it", pid, readyFile)
	}
	if err := os.RemoveAll(handDir); err != nil {
		return fmt.Errorf("clear the last cluster's folder: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(logFile), 0o755); err != nil {
		return fmt.Errorf("make the folder of logs: %w", err)
	}
	log, err := os.Create(logFile)
	if err != nil {
		return fmt.Errorf("open the log: %w", err)
	}
	defer log.Close()
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	cmd := exec.Command(self, "run", "--nodes", strconv.Itoa(nodes))
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the cluster: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	fmt.Printf("cluster-up: starting %d nodes, process %d\n", nodes, cmd.Process.Pid)
	return awaitUp(ctx, cmd.Process, ended)
}

func awaitUp(ctx context.Context, process *os.Process, ended <-chan error) error {
	for began := time.Now(); time.Since(began) < upLimit; {
		select {
		case <-ctx.Done():
			process.Signal(syscall.SIGTERM)
			<-ended
			return ctx.Err()
		case err := <-ended:
			text, _ := os.ReadFile(logFile)
			return fmt.Errorf("the cluster ended: %v: %s", err, text)
		case <-time.After(100 * time.Millisecond):
		}
		if path, err := filepath.Abs(readyFile); err == nil {
			if _, err := os.Stat(path); err == nil {
				fmt.Printf("cluster-up: ready in %.1f s; stop it with make cluster-down\nexport KUBECONFIG=%s\n", time.Since(began).Seconds(), path)
				return nil
			}
		}
	}
	process.Signal(syscall.SIGTERM)
	return fmt.Errorf("the cluster is not ready within %s: see %s", upLimit, handDir)
}

// run runs a cluster until ctx ends. The kubeconfig appears in its folder as soon
// as its nodes are ready.
func run(ctx context.Context, nodes int) error {
	c, err := cluster.Run(ctx, cluster.Options{Nodes: nodes, Name: filepath.Base(handDir)})
	if err != nil {
		return err
	}
	err = publish(c)
	if err == nil {
		fmt.Printf("cluster of %d nodes ready in %.1f s: KUBECONFIG=%s\n", nodes, c.Took.Seconds(), readyFile)
		<-ctx.Done()
	}
	return errors.Join(err, os.RemoveAll(readyFile), os.RemoveAll(pidFile), c.Stop())
}

func publish(c *cluster.Cluster) error {
	if err := os.WriteFile(pidFile, []byte(strconv.Itoa(os.Getpid())), 0o644); err != nil {
		return fmt.Errorf("record the process: %w", err)
	}
	text, err := os.ReadFile(c.Kubeconfig)
	if err != nil {
		return fmt.Errorf("read the kubeconfig: %w", err)
	}
	if err := os.WriteFile(readyFile+".new", text, 0o600); err != nil {
		return fmt.Errorf("write the kubeconfig: %w", err)
	}
	return os.Rename(readyFile+".new", readyFile)
}

func down() error {
	pid := recorded()
	if pid == 0 {
		fmt.Println("cluster-down: no cluster runs")
		return nil
	}
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop process %d: %w", pid, err)
	}
	for began := time.Now(); time.Since(began) < downLimit; time.Sleep(100 * time.Millisecond) {
		if !ours(pid) {
			fmt.Println("cluster-down: stopped")
			return nil
		}
	}
	return fmt.Errorf("process %d does not stop within %s", pid, downLimit)
}

// recorded is the process of the running cluster, or 0.
func recorded() int {
	text, err := os.ReadFile(pidFile)
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || !ours(pid) {
		return 0
	}
	return pid
}

// ours says whether the process is alive and runs a cluster: numbers are reused.
func ours(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	words := strings.Split(string(text), "\x00")
	return err == nil && len(words) > 1 && filepath.Base(words[0]) == "cluster" && words[1] == "run"
}

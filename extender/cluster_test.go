// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/edgeweir/weir/internal/store"
	"github.com/edgeweir/weir/internal/testenv"
	"github.com/edgeweir/weir/internal/wire"
)

// size is the number of nodes: the scheduler offers 230 of 500.
const size = 500

// connect starts an extender and a kube-scheduler that calls it.
func connect(t *testing.T, example string) *world {
	t.Helper()
	w, config := connectExtender(t, example)
	runScheduler(t, config)
	return w
}

// connectExtender starts an extender on the control plane of WEIR_KUBECONFIG,
// whose nodes kwok plays and which has no scheduler, and returns the
// configuration of a scheduler that calls it.
func connectExtender(t testing.TB, example string) (*world, string) {
	t.Helper()
	kubeconfig := os.Getenv("WEIR_KUBECONFIG")
	if kubeconfig == "" || os.Getenv("WEIR_KUBE_SCHEDULER") == "" {
		t.Skip("no control plane: WEIR_KUBECONFIG and WEIR_KUBE_SCHEDULER name none")
	}
	address, listen := testenv.StartRedis(t), testenv.FreeAddress(t)
	cert, key, ca := serverFiles(t)
	e := launch(t, Config{Cluster: "lab", Listen: listen, Cert: cert, Key: key, Kubeconfig: kubeconfig, Admin: "127.0.0.1:0",
		ClaimWait: 2 * time.Millisecond, Hold: 10 * time.Second, Refresh: time.Second, MaxBody: 32 << 20, Nominate: true,
		Redis: store.Options{Addresses: []string{address}, Timeout: time.Second}})
	w := &world{client: e.pods.(*kube).client, store: e.store, extender: e}
	w.populate(t)
	return w, schedulerConfig(t, example, "https://"+listen, ca, kubeconfig)
}

// runScheduler starts the kube-scheduler of WEIR_KUBE_SCHEDULER and returns its
// log, and what ends it before the test does.
func runScheduler(t testing.TB, config string) (logFile string, stop func()) {
	t.Helper()
	log, err := os.Create(filepath.Join(t.TempDir(), "scheduler.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(os.Getenv("WEIR_KUBE_SCHEDULER"), "--config", config, "--secure-port", "0", "-v", "2")
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop = sync.OnceFunc(func() { cmd.Process.Kill(); cmd.Wait() })
	t.Cleanup(stop)
	return log.Name(), stop
}

// populate creates the nodes that are not there yet.
func (w *world) populate(t testing.TB) {
	t.Helper()
	room := corev1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("8Gi"), "pods": resource.MustParse("110")}
	for i := range size {
		_, err := w.client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("edge-", i), Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"}},
			Status:     corev1.NodeStatus{Allocatable: room, Capacity: room},
		}, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
}

// namespace returns a name of its own, gone after the test.
func (w *world) namespace(t testing.TB) string {
	name := fmt.Sprintf("weir-%x", time.Now().UnixNano())
	t.Cleanup(func() { w.client.CoreV1().Namespaces().Delete(context.Background(), name, metav1.DeleteOptions{}) })
	return name
}

// TestTwentyDirectivesLand moves twenty pods at 500 nodes, where a target is
// offered in 46% of the calls, once by each way to configure the scheduler.
func TestTwentyDirectivesLand(t *testing.T) {
	const moves, least, limit = 20, 19, 10 * time.Second
	for example, scheduler := range map[string]string{"default.yaml": "", "second.yaml": "weir-scheduler"} {
		t.Run(example, func(t *testing.T) {
			w := connect(t, example)
			namespace := w.namespace(t)
			w.deploy(t, namespace, moves, scheduler)
			all := w.moves(t, namespace, 0, moves, limit, func(i int) string { return fmt.Sprint("edge-", 100+17*i) })
			w.settle(t, namespace, all, 2*limit)
			landed := 0
			for _, m := range all {
				if m.landed == m.slot.Node && m.took <= limit {
					landed++
				} else {
					t.Logf("%s: meant for %s, landed on %s after %s", m.app, m.slot.Node, m.landed, m.took)
				}
			}
			t.Logf("%d of %d landed on their target within %s", landed, moves, limit)
			if landed < least {
				t.Errorf("%d of %d landed within %s, want %d", landed, moves, limit, least)
			}
			eventually(t, "Redis says what became of each", func() bool {
				directives, err := w.store.Directives(t.Context())
				count := map[string]int{}
				for _, d := range directives {
					if c := d.Slots[0].Claim; c != nil && (c.State == wire.Landed || c.State == wire.LetGo && c.Why != "") {
						count[c.State]++
					}
				}
				return err == nil && count[wire.Landed] >= landed && count[wire.Landed]+count[wire.LetGo] == moves
			})
		})
	}
}

// TestNominationFindsTheTarget moves single pods in a cluster where nothing else
// happens, so that nothing but the extender makes the scheduler try again.
func TestNominationFindsTheTarget(t *testing.T) {
	const moves, limit = 8, 2 * time.Second
	w := connect(t, "default.yaml")
	namespace := w.namespace(t)
	w.deploy(t, namespace, moves, "")
	for i := range moves {
		time.Sleep(time.Second)
		m := w.moves(t, namespace, i, i+1, 10*time.Second, func(i int) string { return fmt.Sprint("edge-", 90+31*i) })
		w.settle(t, namespace, m, 20*time.Second)
		if m[0].landed != m[0].slot.Node || m[0].took > limit {
			t.Errorf("%s: meant for %s, landed on %s after %s", m[0].app, m[0].slot.Node, m[0].landed, m[0].took)
		}
	}
}

// TestUnfitTargetIsLetGo cordons the target: the pod waits until the deadline,
// without driving the scheduler or the API server, and is told why.
func TestUnfitTargetIsLetGo(t *testing.T) {
	const target, limit = "edge-400", 5 * time.Second
	w := connect(t, "default.yaml")
	cordon := func(yes bool) {
		patch := fmt.Appendf(nil, `{"spec":{"unschedulable":%v}}`, yes)
		if _, err := w.client.CoreV1().Nodes().Patch(t.Context(), target, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	cordon(true)
	defer cordon(false)
	namespace := w.namespace(t)
	w.deploy(t, namespace, 1, "")
	m := w.moves(t, namespace, 0, 1, limit, func(int) string { return target })[0]
	w.settle(t, namespace, []*move{m}, 3*limit)
	if m.landed == "" || m.landed == target || m.landed == m.slot.Source || m.took > limit+2*time.Second {
		t.Errorf("meant for %s from %s, landed on %q after %s", target, m.slot.Source, m.landed, m.took)
	}
	eventually(t, "the claim says why", func() bool {
		directives, err := w.store.Directives(t.Context())
		return err == nil && len(directives) == 1 && directives[0].Slots[0].Claim != nil && directives[0].Slots[0].Claim.State == wire.LetGo
	})
	for _, p := range w.extender.status().Pods {
		if p.Nominated > len(nominationDelays) {
			t.Errorf("%d nominations in %s", p.Nominated, limit)
		}
	}
	for _, p := range w.list(t, namespace, "app="+m.app) {
		for _, c := range p.Status.Conditions {
			if c.Type == condition && c.Reason == "Unfit" {
				return
			}
		}
	}
	t.Error("no pod has the condition")
}

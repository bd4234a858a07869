// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestReleaseHasWhatIsThere(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	r, err := Current()
	if err != nil {
		t.Fatal(err)
	}
	if r.Has(Etcd) || Built() {
		t.Fatal("an empty cache has a control plane")
	}
	for _, path := range []string{r.Binary(Etcd), filepath.Join(r.Dir, "stages", "pod-ready.yaml")} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if !r.Has(Etcd) || r.Has(Etcd, Proxy) || Built() {
		t.Error("only etcd was placed")
	}
	var said bytes.Buffer
	if _, err := Build(t.Context(), &said, Etcd); err != nil || said.Len() > 0 {
		t.Errorf("what is there is built again: %v, %s", err, &said)
	}
}

func TestSecondBuilderWaits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := lock(t.Context(), path, &bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := lock(ctx, path, &said); err == nil || !strings.Contains(said.String(), "waiting") {
		t.Errorf("two hold the lock: %v, %q", err, &said)
	}
	unlock()
	again, err := lock(t.Context(), path, &said)
	if err != nil {
		t.Fatal(err)
	}
	again()
}

func TestModuleNamesTheVersions(t *testing.T) {
	for _, want := range []string{"k8s.io/kubernetes " + KubernetesVersion + " ", packages[Etcd] + " v"} {
		if !bytes.Contains(goMod, []byte(want)) {
			t.Errorf("controlplane.mod lacks %q", want)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package host

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSysctlsAreWrittenOnlyWhereTheyDiffer(t *testing.T) {
	root := t.TempDir()
	all := settings(true)
	for i, s := range all {
		value := s.value
		if i%2 == 0 {
			value = "7"
		}
		path := filepath.Join(root, s.path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(value+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	changed, err := apply(root, all)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"net.ipv4.ip_forward: 7 → 1", "net.ipv4.conf.all.arp_announce: 7 → 2",
		"net.ipv4.vs.expire_nodest_conn: 7 → 0", "net.ipv4.vs.conn_reuse_mode: 7 → 1",
	}
	if diff := cmp.Diff(want, changed); diff != "" {
		t.Errorf("changed (-want +have):\n%s", diff)
	}
	if changed, err = apply(root, all); len(changed) != 0 || err != nil {
		t.Errorf("second time: %v, %v", changed, err)
	}
	_, err = apply(root, []setting{{"net/nosuch", "1"}})
	if err == nil || !strings.Contains(err.Error(), "net.nosuch") {
		t.Errorf("error %v does not name the sysctl", err)
	}
}

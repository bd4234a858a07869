// SPDX-License-Identifier: Apache-2.0

package arrivals

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/edgeweir/weir/internal/testenv"
)

// bpftool prints the maps with the names of their fields, and the links with the
// names of their hooks.
func TestBpftoolPrintsNames(t *testing.T) {
	testenv.Require(t, testenv.Bpftool)
	node, client := newWire(t)
	node.serve("[::]:80")
	c := node.open(Options{Dir: bpffs(t)})
	track(t, c)
	wantRows(t, c, map[rowName]uint64{web4: client.connect(3, vip4+":80")})
	wanted := map[string][]string{
		"services": {`"address":`, `"port": 80`, `"protocol": 6`, `"id": 1`},
		"origins":  {`"prefixlen": 120`, `"address":`, `"id": 2`},
		"arrivals": {`"service": 1`, `"origin": 2`, `"tasks":`},
		"flows":    {`"source":`, `"destination":`, `"destination_port": 80`, `"protocol": 6`, `"token":`, `"seen":`},
		"settings": {`"udp_timeout":`, `"handshake_timeout":`},
		"stats":    {`"repeated":`, `"fragments":`, `"malformed":`, `"untracked":`, `"origins_full":`, `"overflowed":`},
		"names":    {`"kind": "NAME_SERVICE"`, `"id": 1`, `"text": "web4"`, `"kind": "NAME_ORIGIN"`, `"text": "edge-2"`},
	}
	for name, words := range wanted {
		wantOutput(t, []string{"map", "dump", "pinned", filepath.Join(c.store.path, name)}, words...)
	}
	wantOutput(t, []string{"prog", "show"}, "name arrivals_in", "name arrivals_out")
	if out := output(t, "link", "show"); strings.Contains(out, "type 10") {
		t.Log("this bpftool is older than netfilter links")
		return
	}
	wantOutput(t, []string{"link", "show"}, "netfilter", "prio 97", "prio -101", "ip input", "ip6 output")
}

func wantOutput(t *testing.T, arguments []string, words ...string) {
	t.Helper()
	out := output(t, arguments...)
	for _, word := range words {
		if !strings.Contains(out, word) {
			t.Errorf("bpftool %v has no %s: %s", arguments, word, out)
		}
	}
}

func output(t *testing.T, arguments ...string) string {
	t.Helper()
	out, err := exec.Command("bpftool", arguments...).CombinedOutput()
	if err != nil {
		t.Fatalf("bpftool %v: %v: %s", arguments, err, out)
	}
	return string(out)
}

// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"strings"
	"testing"
	"time"
)

// A watch that is open, a create that was answered, a watch that ended, and a
// line that is still being written.
const log = `{"stage":"ResponseStarted","auditID":"a","verb":"watch","user":{"username":"agent"},"objectRef":{"resource":"pods"},"responseStatus":{"code":200},"requestReceivedTimestamp":"2026-01-01T00:00:01Z","stageTimestamp":"2026-01-01T00:00:01Z"}
{"stage":"ResponseComplete","auditID":"b","verb":"create","user":{"username":"optimizer"},"objectRef":{"resource":"pods","subresource":"eviction","namespace":"shop","name":"web-1"},"responseStatus":{"code":201},"requestReceivedTimestamp":"2026-01-01T00:00:02Z","stageTimestamp":"2026-01-01T00:00:02.5Z"}
{"stage":"ResponseStarted","auditID":"c","verb":"watch","user":{"username":"agent"},"objectRef":{"resource":"nodes"},"requestReceivedTimestamp":"2026-01-01T00:00:03Z","stageTimestamp":"2026-01-01T00:00:03Z"}
{"stage":"ResponseComplete","auditID":"c","verb":"watch","user":{"username":"agent"},"objectRef":{"resource":"nodes"},"responseStatus":{"code":200},"requestReceivedTimestamp":"2026-01-01T00:00:03Z","stageTimestamp":"2026-01-01T00:00:05Z"}
{"stage":"ResponseComp`

func second(s int) time.Time { return time.Date(2026, 1, 1, 0, 0, s, 0, time.UTC) }

func TestReadAudit(t *testing.T) {
	r, err := readAudit(strings.NewReader(log))
	if err != nil {
		t.Fatal(err)
	}
	if len(r) != 3 {
		t.Fatalf("%d requests, want 3: %+v", len(r), r)
	}
	evictions := r.Of("optimizer").To("pods/eviction", "create").Writes()
	if len(evictions) != 1 || evictions[0].Name != "web-1" || evictions[0].Code != 201 || evictions[0].Ended.Sub(evictions[0].Began) != 500*time.Millisecond {
		t.Errorf("evictions: %+v", evictions)
	}
	if n := len(r.Between(second(2), second(3))); n != 1 {
		t.Errorf("%d requests in [2 s, 3 s), want 1", n)
	}
	for at, want := range map[int]int{0: 0, 1: 1, 4: 2, 6: 1} {
		if n := len(r.Watches(second(at))); n != want {
			t.Errorf("%d watches at %d s, want %d", n, at, want)
		}
	}
	r.closeAt([]time.Time{second(6), second(9)})
	if n := len(r.Watches(second(7))); n != 0 {
		t.Errorf("%d watches after the server ended, want none", n)
	}
	if c := r.Count(ByCall); c["watch pods"] != 1 || c["watch nodes"] != 1 || c["create pods/eviction"] != 1 {
		t.Errorf("calls: %v", c)
	}
}

func TestReadAuditRefusesGarbage(t *testing.T) {
	if _, err := readAudit(strings.NewReader("not json\n")); err == nil {
		t.Error("garbage is taken for a log")
	}
}

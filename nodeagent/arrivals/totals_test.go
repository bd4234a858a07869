// SPDX-License-Identifier: Apache-2.0

package arrivals

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/edgeweir/weir/bpf"
)

// world is a kernel as Delta sees it: counts that grow, rows that are forgotten
// for good, and reboots.
type world struct {
	epoch    int
	nextID   uint32
	ids      map[string]uint32
	rows     map[bpf.ArrivalsArrivalKey]uint64
	overflow uint64
}

func (w *world) totals() Totals {
	rows := maps.Clone(w.rows)
	rows[bpf.ArrivalsArrivalKey{}] = w.overflow
	names := (&book{}).texts()
	for name, id := range w.ids {
		names[bpf.ArrivalsNameKey{Kind: kindService, Id: id}] = name
	}
	return newTotals(fmt.Sprint(w.epoch), rows, names)
}

// Whatever happens between readings, and whenever they happen, the deltas add up
// to the tasks that arrived, by service, as long as each reading comes before the
// rows that it should show are gone.
func TestDeltasAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{nextID: firstServiceID, ids: map[string]uint32{}, rows: map[bpf.ArrivalsArrivalKey]uint64{}}
		arrived, reported := map[string]uint64{}, map[string]uint64{}
		var last Totals
		read := func() {
			cur := w.totals()
			d := Delta(last, cur)
			for name, tasks := range d.ByService() {
				reported[name] += tasks
			}
			if d.Overflow > 0 {
				reported[""] += d.Overflow
			}
			last = cur
		}
		name := rapid.SampledFrom([]string{"a", "b", "c"})
		t.Repeat(map[string]func(*rapid.T){
			"arrive": func(t *rapid.T) {
				service, n := name.Draw(t, "service"), rapid.Uint64Range(1, 1000).Draw(t, "tasks")
				if _, known := w.ids[service]; !known {
					w.ids[service] = w.nextID
					w.nextID++
				}
				w.rows[bpf.ArrivalsArrivalKey{Service: w.ids[service], Origin: rapid.Uint32Range(0, 1).Draw(t, "origin")}] += n
				arrived[service] += n
			},
			"overflow": func(t *rapid.T) {
				w.overflow++
				arrived[""]++
			},
			"forget": func(t *rapid.T) {
				read()
				service := name.Draw(t, "service")
				maps.DeleteFunc(w.rows, func(key bpf.ArrivalsArrivalKey, _ uint64) bool { return key.Service == w.ids[service] })
				delete(w.ids, service)
			},
			"reboot": func(t *rapid.T) {
				read()
				*w = world{epoch: w.epoch + 1, nextID: firstServiceID, ids: map[string]uint32{}, rows: map[bpf.ArrivalsArrivalKey]uint64{}}
			},
			"read": func(t *rapid.T) { read() },
		})
		read()
		if !reflect.DeepEqual(arrived, reported) {
			t.Fatalf("arrived %v, reported %v", arrived, reported)
		}
		if d := Delta(last, last); len(d.Rows) != 0 || d.Overflow != 0 {
			t.Fatalf("nothing happened, but %+v", d)
		}
	})
}

// Totals pass through JSON unharmed, for those who keep them over a restart.
func TestTotalsAsJSON(t *testing.T) {
	in := Totals{Epoch: "boot/7", Overflow: 1<<64 - 1, Rows: []Row{{"default/web:http", OriginSelf, 1, 1, 1<<63 + 1}}}
	b, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	var out Totals
	if err := json.Unmarshal(b, &out); err != nil || !reflect.DeepEqual(in, out) {
		t.Errorf("%s became %+v, %v", b, out, err)
	}
}

func TestTotalsAreSorted(t *testing.T) {
	w := &world{ids: map[string]uint32{"a": 2, "b": 1}, rows: map[bpf.ArrivalsArrivalKey]uint64{{Service: 2, Origin: 1}: 1, {Service: 2}: 1, {Service: 1, Origin: 1}: 1}}
	var got []string
	for _, r := range w.totals().Rows {
		got = append(got, r.Service+" "+r.Origin)
	}
	if want := []string{"b self", "a other", "a self"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

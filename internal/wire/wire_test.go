// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func exampleArrivals() Arrivals {
	return Arrivals{
		Version: Version, Node: "edge-1", Agent: "v0", Counters: "b/1", Boot: "b", Attachment: "netfilter",
		Period: 7, Start: epoch, End: epoch.Add(5 * time.Second),
		Services: map[string]ServiceArrivals{"shop/web:http": {Tasks: 3, Total: 9, Origins: map[string]uint64{"edge-1": 2, "rest": 1}, Pods: map[string]float64{"shop/web-a": 3}}},
		Usage: Usage{Node: Reading{Used: map[string]float64{"cpu": 0.5}},
			Pods: map[string]Reading{"shop/web-a": {Used: map[string]float64{"workers": 1.5}, Capacity: map[string]float64{"workers": 4}}}},
	}
}

func exampleSplit() Split {
	return Split{Version: Version, Epoch: 1, Period: 7, At: epoch, Service: "shop/web:http",
		Share: Share{Admitted: 0.75, Pods: map[string]float64{"shop/web-a": 0.5, "shop/web-b": 0.25}}}
}

func TestMessagesSurviveARoundTrip(t *testing.T) {
	a := exampleArrivals()
	roundTrip(t, &a)
	s := exampleSplit()
	roundTrip(t, &s)
	roundTrip(t, &Ratios{Version: Version, Epoch: 1, Period: 7, At: epoch, Node: "edge-1", Services: map[string]Share{"shop/web:http": s.Share}})
	roundTrip(t, &Pulse{Version: Version, Epoch: 1, Period: 7, At: epoch})
	roundTrip(t, &Plan{Version: Version, Epoch: 1, Period: 7, At: epoch, Seconds: 5, Degraded: []string{"redis: slow"},
		Dispatch: &DispatchPlan{Status: "optimal", Arrived: 3, Served: 3, Bound: 3, Why: []string{"fits"},
			TaskCosts: map[string]map[string]Cost{"shop/web:http": {"workers": {Value: 0.05, Source: "estimated"}}}}})
}

func roundTrip[M any, P interface {
	*M
	Message
}](t *testing.T, m P) {
	t.Helper()
	data, err := Encode(m)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Decode[M, P](data)
	if err != nil {
		t.Fatalf("decode %s: %v", data, err)
	}
	if !reflect.DeepEqual(&got, (*M)(m)) {
		t.Errorf("%T came back as\n%+v, was\n%+v", m, got, *m)
	}
}

func TestDecodeNamesFieldAndValue(t *testing.T) {
	tests := []struct{ name, data, want string }{
		{"garbage", `\x00`, "not JSON"},
		{"no version", `{}`, "version"},
		{"far future", `{"version": 7}`, "version: 7: this build reads 1 to 2"},
		{"unknown field", `{"version": 1, "colour": "red"}`, "colour"},
		{"share over one", `{"version": 1, "service": "a", "admitted": 1.5, "pods": {"p": 1.5}}`, "admitted: 1.5"},
		{"sum is off", `{"version": 1, "service": "a", "admitted": 1, "pods": {"p": 0.5}}`, "pods: 0.5: a sum of admitted"},
		{"negative", `{"version": 1, "service": "a", "admitted": 0, "pods": {"p": -1}}`, "pods.p: -1"},
		{"no name", `{"version": 1, "service": "", "admitted": 0}`, `service: ""`},
		{"blank in a name", `{"version": 1, "service": "a\nb", "admitted": 0}`, `service: "a\nb"`},
		{"negative epoch", `{"version": 1, "service": "a", "epoch": -4, "admitted": 0}`, "epoch: -4"},
		{"two values", `{"version": 1, "service": "a", "admitted": 0} {}`, "not JSON"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Decode[Split]([]byte(tt.data))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("error %v, want one with %q", err, tt.want)
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("error has more than one line: %q", err)
			}
			if !reflect.DeepEqual(got, Split{}) {
				t.Errorf("a part of a bad message came through: %+v", got)
			}
		})
	}
}

func TestNextVersionMayCarryMore(t *testing.T) {
	s := exampleSplit()
	s.Version = Version + 1
	data, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	next := strings.Replace(string(data), "{", `{"later": true,`, 1)
	if _, err := Decode[Split]([]byte(next)); err != nil {
		t.Errorf("a message of the next version was refused: %v", err)
	}
}

func TestEncodeRefusesWhatReadersWould(t *testing.T) {
	a := exampleArrivals()
	a.Usage.Node.Used["cpu"] = math.NaN()
	if _, err := Encode(&a); err == nil {
		t.Error("a NaN was encoded")
	}
	a = exampleArrivals()
	a.Services["shop/web:http"] = ServiceArrivals{Tasks: 10, Total: 9}
	if _, err := Encode(&a); err == nil {
		t.Error("more tasks than their total were encoded")
	}
	a = exampleArrivals()
	a.End = a.Start
	if _, err := Encode(&a); err == nil {
		t.Error("an empty interval was encoded")
	}
}

func FuzzDecode(f *testing.F) {
	a, s := exampleArrivals(), exampleSplit()
	for _, m := range []Message{&a, &s} {
		data, err := Encode(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(`{"version": 1, "service": "a", "admitted": 1e999}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		decoded(t, data, func(d []byte) (*Arrivals, error) { m, err := Decode[Arrivals](d); return &m, err })
		decoded(t, data, func(d []byte) (*Split, error) { m, err := Decode[Split](d); return &m, err })
		decoded(t, data, func(d []byte) (*Ratios, error) { m, err := Decode[Ratios](d); return &m, err })
		decoded(t, data, func(d []byte) (*Plan, error) { m, err := Decode[Plan](d); return &m, err })
		decoded(t, data, func(d []byte) (*State, error) { m, err := Decode[State](d); return &m, err })
		decoded(t, data, func(d []byte) (*Freeze, error) { m, err := Decode[Freeze](d); return &m, err })
		decoded(t, data, func(d []byte) (*Pulse, error) { m, err := Decode[Pulse](d); return &m, err })
	})
}

// decoded checks that what decodes also encodes: a reader never holds what a
// writer could not have sent.
func decoded[M Message](t *testing.T, data []byte, decode func([]byte) (M, error)) {
	m, err := decode(data)
	if err != nil {
		return
	}
	if _, err := Encode(m); err != nil {
		t.Errorf("%q decodes but does not encode: %v", data, err)
	}
}

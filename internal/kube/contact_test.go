// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// server answers each request by a function.
type server func() (*http.Response, error)

func (s server) RoundTrip(*http.Request) (*http.Response, error) { return s() }

func answer(code int, body string) server {
	return func() (*http.Response, error) {
		return &http.Response{StatusCode: code, Status: http.StatusText(code), Body: io.NopCloser(strings.NewReader(body))}, nil
	}
}

// ask does one request and returns its answer's body.
func ask(t *testing.T, c *contact, s server) io.ReadCloser {
	t.Helper()
	c.next = s
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://api", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := c.RoundTrip(r)
	if err != nil {
		return nil
	}
	return response.Body
}

// What is lost is told from the last good byte on: at once when a request fails, and
// after the grace when a watch ends and nobody asks again.
func TestContactTellsWhatIsLost(t *testing.T) {
	now := time.Now()
	c := &contact{now: func() time.Time { return now }}
	expect := func(when string, want time.Duration, why string) {
		t.Helper()
		if got, reason := c.lost(); got != want || reason != why {
			t.Errorf("%s: lost for %s, %q; want %s, %q", when, got, reason, want, why)
		}
	}
	expect("before the first request", 0, "")
	watch := ask(t, c, answer(200, "event"))
	now = now.Add(time.Minute)
	expect("a watch is open", 0, "")
	now = now.Add(quiet)
	expect("a watch is silent", time.Minute+quiet, "the watch is silent")
	if _, err := io.ReadAll(watch); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(watch.Close(), watch.Close()); err != nil {
		t.Fatal(err)
	}
	now = now.Add(grace)
	expect("a watch has just ended", 0, "")
	now = now.Add(time.Second)
	expect("a watch has ended", grace+time.Second, "the watch has ended")
	ask(t, c, answer(500, ""))
	expect("a request failed", grace+time.Second, "Internal Server Error")
	ask(t, c, func() (*http.Response, error) { return nil, errors.New("connection refused") })
	expect("none could be sent", grace+time.Second, "connection refused")
	ask(t, c, answer(200, ""))
	expect("a request went through", 0, "")
}

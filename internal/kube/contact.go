// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// contact remembers how the API server answers the requests for one kind. It
// stands in the HTTP client, below the retries of the libraries: what they hide
// is what an operator wants to know.
type contact struct {
	next http.RoundTripper
	now  func() time.Time

	mu      sync.Mutex
	open    int       // answers that are still being read, an open watch above all
	last    time.Time // of the last good byte
	failing time.Time // since when, zero: not
	reason  string
	code    int // of the last bad answer; 0: there was none
}

// quiet is how long an open watch may be silent: the server sends a bookmark
// about once a minute.
const quiet = 3 * time.Minute

// RoundTrip does one request and notes what came of it.
func (c *contact) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := c.next.RoundTrip(r)
	switch {
	case err != nil:
		// A request that we end ourselves tells nothing.
		if r.Context().Err() == nil {
			c.fail(0, err.Error())
		}
	case response.StatusCode >= 400:
		c.fail(response.StatusCode, response.Status)
	default:
		c.good()
		c.opened(1)
		response.Body = &heard{ReadCloser: response.Body, contact: c}
	}
	return response, err
}

// heard notes what comes through a body.
type heard struct {
	io.ReadCloser
	contact *contact
	closed  sync.Once
}

// Close ends the reading.
func (h *heard) Close() error {
	h.closed.Do(func() { h.contact.opened(-1) })
	return h.ReadCloser.Close()
}

func (h *heard) Read(p []byte) (int, error) {
	n, err := h.ReadCloser.Read(p)
	if n > 0 {
		h.contact.good()
	}
	return n, err
}

func (c *contact) good() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last, c.failing, c.reason, c.code = c.now(), time.Time{}, "", 0
}

func (c *contact) opened(by int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open += by
}

func (c *contact) fail(code int, reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failing.IsZero() {
		c.failing = c.now()
	}
	c.code, c.reason = code, strings.Join(strings.Fields(reason), " ")
}

// lost returns for how long there has been no contact, and why; 0: there is.
func (c *contact) lost() (time.Duration, string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	since := c.last
	if since.IsZero() {
		since = c.failing
	}
	switch {
	case !c.failing.IsZero():
		return now.Sub(since), c.reason
	case !c.last.IsZero() && c.open == 0 && now.Sub(c.last) > grace:
		// The library waits for up to half a minute before it asks again.
		return now.Sub(c.last), "the watch has ended"
	case !c.last.IsZero() && now.Sub(c.last) > quiet:
		return now.Sub(c.last), "the watch is silent"
	default:
		return 0, ""
	}
}

// unserved says whether the server refuses the kind: it doesn't have it, or we
// may not see it.
func (c *contact) unserved() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.code == http.StatusForbidden || c.code == http.StatusNotFound || c.code == http.StatusUnauthorized
}

func (c *contact) String() string {
	lost, reason := c.lost()
	return fmt.Sprintf("no contact for %s: %s", lost.Round(time.Second), reason)
}

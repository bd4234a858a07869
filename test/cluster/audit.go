// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"
)

// Request is what the audit log says of one request to the API server.
type Request struct {
	User, Agent string
	// Verb is Kubernetes' own: get, list, watch, create, update, patch, delete.
	Verb string
	// Resource has its subresource after a slash, such as pods/eviction.
	Resource, Namespace, Name string
	URI                       string
	// Began is when the server received it, Ended when it was answered in
	// full: zero while a watch is open.
	Began, Ended time.Time
	// Code is the HTTP status; 0 where no answer is known.
	Code int
}

// Requests are in the order in which the server began to answer them.
type Requests []Request

// auditEvent is a line of the log: audit.k8s.io/v1, as far as it is read.
type auditEvent struct {
	AuditID                                  string
	Stage, Verb, UserAgent                   string
	RequestURI                               string
	User                                     struct{ Username string }
	ObjectRef                                struct{ Resource, Subresource, Namespace, Name string }
	ResponseStatus                           struct{ Code int }
	RequestReceivedTimestamp, StageTimestamp time.Time
}

// Requests reads the audit log. Watches that were open when the API server was
// ended through its Process end then.
func (c *Cluster) Requests() (Requests, error) {
	f, err := os.Open(c.Audit)
	if err != nil {
		return nil, fmt.Errorf("read the audit log: %w", err)
	}
	defer f.Close()
	requests, err := readAudit(f)
	if err != nil {
		return nil, fmt.Errorf("read the audit log %s: %w", c.Audit, err)
	}
	requests.closeAt(c.APIServer.endings())
	return requests, nil
}

// readAudit joins the lines of each request. A last line that is still being
// written is left out.
func readAudit(r io.Reader) (Requests, error) {
	var requests Requests
	place := map[string]int{}
	for lines := bufio.NewReaderSize(r, 1<<20); ; {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			return requests, nil
		}
		if err != nil {
			return nil, err
		}
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		var e auditEvent
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("line %.80s: %w", line, err)
		}
		i, known := place[e.AuditID]
		if !known {
			i = len(requests)
			requests = append(requests, e.request())
			place[e.AuditID] = i
		}
		if e.Stage == "ResponseComplete" || e.Stage == "Panic" {
			requests[i].Ended, requests[i].Code = e.StageTimestamp, e.ResponseStatus.Code
			delete(place, e.AuditID)
		}
	}
}

func (e auditEvent) request() Request {
	resource := e.ObjectRef.Resource
	if e.ObjectRef.Subresource != "" {
		resource += "/" + e.ObjectRef.Subresource
	}
	return Request{
		User: e.User.Username, Agent: e.UserAgent, Verb: e.Verb, Resource: resource, Namespace: e.ObjectRef.Namespace,
		Name: e.ObjectRef.Name, URI: e.RequestURI, Began: e.RequestReceivedTimestamp, Code: e.ResponseStatus.Code,
	}
}

// closeAt ends the open requests at the first of the server's ends after their
// beginning.
func (r Requests) closeAt(ends []time.Time) {
	for i := range r {
		for _, end := range ends {
			if r[i].Ended.IsZero() && r[i].Began.Before(end) {
				r[i].Ended = end
			}
		}
	}
}

// Where returns the requests that keep is true of.
func (r Requests) Where(keep func(Request) bool) Requests {
	var kept Requests
	for _, q := range r {
		if keep(q) {
			kept = append(kept, q)
		}
	}
	return kept
}

// Of returns the requests of a user.
func (r Requests) Of(user string) Requests {
	return r.Where(func(q Request) bool { return q.User == user })
}

// To returns the requests for a resource with one of the verbs; no verb is all.
func (r Requests) To(resource string, verbs ...string) Requests {
	return r.Where(func(q Request) bool {
		if q.Resource != resource {
			return false
		}
		for _, v := range verbs {
			if q.Verb == v {
				return true
			}
		}
		return len(verbs) == 0
	})
}

// Writes returns the requests that change an object.
func (r Requests) Writes() Requests {
	return r.Where(func(q Request) bool { return q.Verb != "get" && q.Verb != "list" && q.Verb != "watch" })
}

// Between returns the requests that began at or after from and before to.
func (r Requests) Between(from, to time.Time) Requests {
	return r.Where(func(q Request) bool { return !q.Began.Before(from) && q.Began.Before(to) })
}

// Watches returns the watches that were open at a time.
func (r Requests) Watches(at time.Time) Requests {
	return r.Where(func(q Request) bool {
		return q.Verb == "watch" && !q.Began.After(at) && (q.Ended.IsZero() || q.Ended.After(at))
	})
}

// Count counts the requests by a key, such as ByCall.
func (r Requests) Count(key func(Request) string) map[string]int {
	counts := map[string]int{}
	for _, q := range r {
		counts[key(q)]++
	}
	return counts
}

// ByCall is a key for Count: "verb resource".
func ByCall(q Request) string { return q.Verb + " " + q.Resource }

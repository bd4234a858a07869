// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// The scheduler gives up on a call after its httpTimeout, so nothing that is
// slower is worth waiting for.
const (
	readLimit = 2 * time.Second
	idleLimit = 2 * time.Minute
	// grace is how long calls may take to end once the extender stops.
	grace = 2 * time.Second
)

// serve answers the scheduler's calls until ctx ends.
func (e *Extender) serve(ctx context.Context) error {
	listener, err := net.Listen("tcp", e.config.Listen)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	server := &http.Server{
		Handler:           e.handler(),
		TLSNextProto:      map[string]func(*http.Server, *tls.Conn, http.Handler){}, // no HTTP/2: see certs.load
		ReadHeaderTimeout: readLimit, ReadTimeout: readLimit, WriteTimeout: readLimit, IdleTimeout: idleLimit,
		MaxHeaderBytes: 16 << 10,
		ErrorLog:       slog.NewLogLogger(e.logger.Handler(), slog.LevelDebug),
	}
	scheme := "http"
	if e.certs != nil {
		server.TLSConfig, scheme = e.certs.config(), "https"
	} else {
		e.logger.Warn("calls are not encrypted: no --tls-cert")
	}
	e.address.Store(listener.Addr().String())
	e.logger.Info("listening", "url", scheme+"://"+listener.Addr().String())
	served := make(chan error, 1)
	go func() {
		if e.certs != nil {
			served <- server.ServeTLS(listener, "", "")
		} else {
			served <- server.Serve(listener)
		}
	}()
	select {
	case err := <-served:
		return fmt.Errorf("--listen: %w", err)
	case <-ctx.Done():
	}
	stopping, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	if err := server.Shutdown(stopping); errors.Is(err, context.DeadlineExceeded) {
		return server.Close()
	}
	return nil
}

// handler returns the verbs.
func (e *Extender) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /filter", func(w http.ResponseWriter, r *http.Request) { e.call(w, r, "filter") })
	mux.HandleFunc("POST /prioritize", func(w http.ResponseWriter, r *http.Request) { e.call(w, r, "prioritize") })
	return mux
}

// call answers one call. What can't be understood gets a status that is not 200:
// the scheduler then goes on without the extender, as `ignorable` says.
func (e *Extender) call(w http.ResponseWriter, r *http.Request, verb string) {
	start := time.Now()
	body, err := e.read(w, r)
	if err != nil {
		e.metrics.answered(verb, outBad, time.Since(start))
		status := http.StatusBadRequest
		if large := new(http.MaxBytesError); errors.As(err, &large) {
			status = http.StatusRequestEntityTooLarge
		}
		http.Error(w, err.Error(), status)
		return
	}
	defer buffers.Put(body)
	answer, out, err := e.answer(verb, body.Bytes(), start)
	if err != nil {
		e.metrics.answered(verb, outBad, time.Since(start))
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if _, err := w.Write(answer); err != nil {
		e.metrics.brokenCalls.Inc()
	}
	e.metrics.answered(verb, out, time.Since(start))
}

// buffers holds the bodies of calls that have ended.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

func (e *Extender) read(w http.ResponseWriter, r *http.Request) (*bytes.Buffer, error) {
	body := buffers.Get().(*bytes.Buffer)
	body.Reset()
	if _, err := body.ReadFrom(http.MaxBytesReader(w, r.Body, e.config.MaxBody)); err != nil {
		buffers.Put(body)
		e.metrics.brokenCalls.Inc()
		return nil, fmt.Errorf("read the call: %w", err)
	}
	return body, nil
}

// answer turns the body of a call into that of its answer.
func (e *Extender) answer(verb string, body []byte, now time.Time) ([]byte, outcome, error) {
	a, err := decodeAsk(body)
	if err != nil {
		return nil, outBad, err
	}
	v, o, out, err := e.decide(a, now)
	if err != nil {
		return nil, outBad, err
	}
	var result any
	if verb == "prioritize" {
		result = prioritize(o, v)
	} else {
		switch {
		case v.kind == withhold && v.target != "":
			e.refused(a.pod(), a.Pod.Status.NominatedNodeName)
		case v.kind == only:
			e.accepted(a.pod())
		}
		result = filter(a, o, v)
	}
	data, err := json.Marshal(result)
	return data, out, err
}

// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/api"
	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
	"golang.org/x/sync/errgroup"
)

// ErrTooLarge says that an answer exceeds a limit.
var ErrTooLarge = errors.New("answer too large")

// PrometheusOptions say how a Prometheus is asked.
type PrometheusOptions struct {
	// URL is its base: http://host:9090, with a path where it has one.
	URL string
	// TokenFile holds a bearer token, read at each request; empty: none.
	TokenFile string
	// CA is a PEM file of the authority of an https URL; empty: the system's.
	CA string
	// Queries are asked at each reading.
	Queries Queries
	// Timeout bounds a whole reading.
	Timeout time.Duration
	// Stale is the age from which a sample is not taken.
	Stale time.Duration
	// Parallel bounds the queries under way.
	Parallel int
	// MaxBytes and MaxSeries bound the answer to one query.
	MaxBytes  int64
	MaxSeries int
}

// NewPrometheusOptions are the defaults.
func NewPrometheusOptions() PrometheusOptions {
	return PrometheusOptions{Queries: DefaultQueries(), Timeout: 4 * time.Second, Stale: 90 * time.Second, Parallel: 4,
		MaxBytes: 32 << 20, MaxSeries: 50_000}
}

// Prometheus reads usage from a Prometheus server over its HTTP API.
type Prometheus struct {
	options PrometheusOptions
	api     v1.API
	queries []query
	now     func() time.Time
}

// NewPrometheus prepares a client; the server need not be there yet.
func NewPrometheus(o PrometheusOptions) (*Prometheus, error) {
	if u, err := url.Parse(o.URL); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("--prometheus: %q: an http or https URL", o.URL)
	}
	transport := &http.Transport{MaxIdleConnsPerHost: o.Parallel, IdleConnTimeout: time.Minute}
	if o.CA != "" {
		pem, err := os.ReadFile(o.CA)
		if err != nil {
			return nil, fmt.Errorf("--prometheus-ca: %w", err)
		}
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("--prometheus-ca: %s: no PEM certificate", o.CA)
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	}
	client, err := api.NewClient(api.Config{Address: o.URL, RoundTripper: &bounded{transport, o.MaxBytes, o.TokenFile}})
	if err != nil {
		return nil, fmt.Errorf("--prometheus: %w", err)
	}
	return &Prometheus{options: o, api: v1.NewAPI(client), queries: o.Queries.all(), now: time.Now}, nil
}

// Read asks every query. What some queries answer is returned beside the errors
// of the others; nil: nothing was answered.
func (p *Prometheus) Read(ctx context.Context) (*Usage, error) {
	ctx, cancel := context.WithTimeout(ctx, p.options.Timeout)
	defer cancel()
	clock, err := p.clock(ctx)
	if err != nil {
		return nil, fmt.Errorf("prometheus: time: %w", p.plain(err))
	}
	answers, failed := make([]model.Vector, len(p.queries)), make([]error, len(p.queries))
	var group errgroup.Group
	group.SetLimit(p.options.Parallel)
	for i, q := range p.queries {
		group.Go(func() error {
			if answers[i], failed[i] = p.ask(ctx, q.expression); failed[i] != nil {
				failed[i] = fmt.Errorf("prometheus: %s: %w", q, p.plain(failed[i]))
			}
			return nil
		})
	}
	group.Wait() // every error is in failed
	u := p.assemble(clock, answers, failed)
	u.At, u.Skew = clock.ours, clock.skew()
	if len(u.Nodes)+len(u.Pods) == 0 {
		return u, errors.Join(append(failed, errors.New("prometheus: no usable sample in any answer"))...)
	}
	return u, errors.Join(failed...)
}

// assemble enters the answers. An object whose scrape is too long ago, or whose
// age was asked for and is unknown, gives no sample.
func (p *Prometheus) assemble(c clock, answers []model.Vector, failed []error) *Usage {
	u := newUsage()
	stamps := map[bool]map[string]float64{}
	for i, q := range p.queries {
		if q.resource != "" || failed[i] != nil {
			continue // without stamps all is taken as fresh
		}
		stamps[q.pods] = map[string]float64{}
		for _, s := range answers[i] {
			stamps[q.pods][p.options.Queries.Labels.name(s.Metric, q.pods)] = float64(s.Value)
		}
	}
	oldest := float64(c.theirs.Add(-p.options.Stale).UnixMilli()) / 1000
	for i, q := range p.queries {
		if q.resource == "" {
			continue
		}
		objects := u.Nodes
		if q.pods {
			objects = u.Pods
		}
		for _, s := range answers[i] {
			name := p.options.Queries.Labels.name(s.Metric, q.pods)
			if at, asked := stamps[q.pods]; asked && name != "" && !(at[name] >= oldest) {
				u.Dropped[DroppedStale]++
				continue
			}
			u.enter(objects, name, q.resource, float64(s.Value))
		}
	}
	return u
}

// clock is the same moment by two clocks.
type clock struct{ ours, theirs time.Time }

func (c clock) skew() time.Duration { return c.theirs.Sub(c.ours) }

// clock asks for the server's time. Samples are aged by it: scrapes are stamped
// with it, so the age is right even where the two clocks differ.
func (p *Prometheus) clock(ctx context.Context) (clock, error) {
	asked := p.now()
	value, _, _, err := p.api.Query(ctx, "time()", time.Time{})
	if err != nil {
		return clock{}, err
	}
	scalar, ok := value.(*model.Scalar)
	if !ok {
		return clock{}, fmt.Errorf("an answer of %s instead of a number", kind(value))
	}
	answered := p.now()
	return clock{ours: asked.Add(answered.Sub(asked) / 2), theirs: scalar.Timestamp.Time()}, nil
}

// ask evaluates an expression at the server's present.
func (p *Prometheus) ask(ctx context.Context, expression string) (model.Vector, error) {
	value, _, _, err := p.api.Query(ctx, expression, time.Time{}, v1.WithTimeout(p.options.Timeout))
	if err != nil {
		return nil, err
	}
	vector, ok := value.(model.Vector)
	if !ok {
		return nil, fmt.Errorf("an answer of %s instead of a vector", kind(value))
	}
	if len(vector) > p.options.MaxSeries {
		return nil, fmt.Errorf("%w: %d series, at most %d", ErrTooLarge, len(vector), p.options.MaxSeries)
	}
	return vector, nil
}

func kind(v model.Value) string {
	if v == nil {
		return "nothing"
	}
	return "type " + v.Type().String()
}

// plain shortens what the client library says.
func (p *Prometheus) plain(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("no answer in %s: %w", p.options.Timeout, context.DeadlineExceeded)
	}
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		return wrapped.Err // the URL holds the whole expression
	}
	return err
}

func (q query) String() string {
	of := "nodes"
	if q.pods {
		of = "pods"
	}
	if q.resource == "" {
		return "stamps of " + of
	}
	return q.resource + " of " + of
}

// bounded limits the size of answers and adds the token to requests.
type bounded struct {
	next      http.RoundTripper
	limit     int64
	tokenFile string
}

func (b *bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	if b.tokenFile != "" {
		token, err := os.ReadFile(b.tokenFile)
		if err != nil {
			return nil, fmt.Errorf("--prometheus-token-file: %w", err)
		}
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	}
	answer, err := b.next.RoundTrip(r)
	if err == nil {
		answer.Body = &limited{body: answer.Body, left: b.limit + 1}
	}
	return answer, err
}

// limited fails, where io.LimitReader would cut off, once a body is too long.
type limited struct {
	body io.ReadCloser
	left int64
}

func (l *limited) Read(p []byte) (int, error) {
	if l.left <= 0 {
		return 0, ErrTooLarge
	}
	n, err := l.body.Read(p[:min(int64(len(p)), l.left)])
	l.left -= int64(n)
	return n, err
}

func (l *limited) Close() error { return l.body.Close() }

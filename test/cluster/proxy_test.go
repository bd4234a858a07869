// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bufio"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// behind starts a server that streams one line and then stays silent for a
// request of /stream, and answers 200 to all others; and a proxy before it.
func behind(t *testing.T) *Proxy {
	stop := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/stream" {
			return
		}
		w.Write([]byte("first\n"))
		w.(http.Flusher).Flush()
		select {
		case <-r.Context().Done():
		case <-stop:
		}
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(stop) })
	return NewProxy(t, server.URL)
}

func TestProxyPlaysFaults(t *testing.T) {
	p := behind(t)
	get := func() (int, string, error) {
		answer, err := http.Get(p.URL)
		if err != nil {
			return 0, "", err
		}
		answer.Body.Close()
		return answer.StatusCode, answer.Header.Get("Retry-After"), nil
	}
	if code, _, err := get(); code != 200 || err != nil {
		t.Errorf("healthy: %d %v", code, err)
	}
	p.Set(Fault{Match: func(r *http.Request) bool { return r.Method == http.MethodPost }, Cut: true}, Fault{Status: 429, RetryAfter: 2 * time.Second})
	if code, after, err := get(); code != 429 || after != "2" || err != nil {
		t.Errorf("429: %d, retry after %q, %v", code, after, err)
	}
	p.Set(Fault{Cut: true})
	if code, _, err := get(); err == nil {
		t.Errorf("cut: answered %d", code)
	}
	p.Set(Fault{Delay: 50 * time.Millisecond})
	began := time.Now()
	if code, _, err := get(); code != 200 || err != nil || time.Since(began) < 50*time.Millisecond {
		t.Errorf("delayed: %d %v after %s", code, err, time.Since(began))
	}
	p.Set()
	if code, _, err := get(); code != 200 || err != nil {
		t.Errorf("healed: %d %v", code, err)
	}
	if seen, hit := p.Counts(); hit < 3 || seen != hit+2 { // the client may repeat what was cut
		t.Errorf("%d requests seen, %d hit, want all but two of them, and three at least", seen, hit)
	}
}

func TestProxyStreamsAndSevers(t *testing.T) {
	p := behind(t)
	answer, err := http.Get(p.URL + "/stream")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	lines := bufio.NewReader(answer.Body)
	if line, err := lines.ReadString('\n'); line != "first\n" {
		t.Fatalf("the first line does not pass while the stream is open: %q, %v", line, err)
	}
	p.Sever()
	if _, err := lines.ReadString('\n'); err == nil {
		t.Error("a severed stream goes on")
	}
}

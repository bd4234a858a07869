// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// reading is the state of all counters at one moment.
type reading struct {
	redis      map[string]string
	histograms map[string]histogram
	cpu        time.Duration // the optimizer's
}

// histogram is a count, a sum and the cumulative counts by upper bound.
type histogram struct {
	count   uint64
	sum     float64
	buckets map[float64]uint64
}

func (b *bed) read() (reading, error) {
	var r reading
	var err error
	if r.redis, err = redisInfo(b.redisAt); err != nil {
		return r, err
	}
	if r.histograms, err = scrape("http://" + b.admin + "/metrics"); err != nil {
		return r, err
	}
	r.cpu, err = cpuTime(b.optimizer.PID())
	return r, err
}

// redisInfo asks for INFO in Redis' own protocol.
func redisInfo(address string) (map[string]string, error) {
	conn, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return nil, fmt.Errorf("redis INFO: %w", err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(2 * time.Second))
	if _, err := conn.Write([]byte("INFO\r\nQUIT\r\n")); err != nil {
		return nil, fmt.Errorf("redis INFO: %w", err)
	}
	info := map[string]string{}
	lines := bufio.NewScanner(conn)
	for lines.Scan() {
		if name, value, ok := strings.Cut(strings.TrimSpace(lines.Text()), ":"); ok {
			info[name] = value
		}
	}
	if info["total_net_input_bytes"] == "" {
		return nil, fmt.Errorf("redis INFO at %s: no total_net_input_bytes (%v)", address, lines.Err())
	}
	return info, nil
}

// scrape reads the unlabelled histograms of a metrics endpoint, and adds up the
// labelled ones.
func scrape(url string) (map[string]histogram, error) {
	answer, err := http.Get(url)
	if err != nil {
		return nil, fmt.Errorf("read metrics: %w", err)
	}
	defer answer.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(answer.Body)
	if err != nil {
		return nil, fmt.Errorf("read metrics of %s: %w", url, err)
	}
	found := map[string]histogram{}
	for name, family := range families {
		if family.GetType() != dto.MetricType_HISTOGRAM {
			continue
		}
		h := histogram{buckets: map[float64]uint64{}}
		for _, m := range family.Metric {
			h.count += m.Histogram.GetSampleCount()
			h.sum += m.Histogram.GetSampleSum()
			for _, b := range m.Histogram.Bucket {
				h.buckets[b.GetUpperBound()] += b.GetCumulativeCount()
			}
		}
		found[name] = h
	}
	return found, nil
}

// peakMemory is the process's highest resident memory in bytes (VmHWM).
func peakMemory(pid int) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, fmt.Errorf("read the peak memory: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		if words := strings.Fields(line); len(words) == 3 && words[0] == "VmHWM:" {
			kib, err := strconv.ParseInt(words[1], 10, 64)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("read the peak memory of process %d: no VmHWM", pid)
}

// cpuTime is what the process's threads ran so far; a tick is 10 ms.
func cpuTime(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("read the processor time: %w", err)
	}
	_, rest, _ := strings.Cut(string(text), ") ") // the name may hold spaces
	words := strings.Fields(rest)
	if len(words) < 13 {
		return 0, fmt.Errorf("read the processor time of process %d: %q", pid, text)
	}
	user, errUser := strconv.Atoi(words[11])
	system, errSystem := strconv.Atoi(words[12])
	if errUser != nil || errSystem != nil {
		return 0, fmt.Errorf("read the processor time of process %d: %q", pid, text)
	}
	return time.Duration(user+system) * 10 * time.Millisecond, nil
}

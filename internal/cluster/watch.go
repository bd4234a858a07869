// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

// settle is how long a file must be quiet before it is read again: editors
// write in several steps.
const settle = 50 * time.Millisecond

// rescan bounds how long a change can go unseen where the kernel sends no
// event for it (network file systems, a replaced ConfigMap link).
const rescan = 5 * time.Second

// Watch calls changed with the cluster file's contents, at once and each time
// that they change, and failed with the error when they are not valid; what was
// valid before stays in force. It blocks until ctx ends.
func Watch(ctx context.Context, path string, changed func(*Cluster), failed func(error)) error {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watch %s: %w", path, err)
	}
	defer watcher.Close()
	// The folder is watched, not the file: a rename over it would end a
	// watch on the file.
	if err := watcher.Add(filepath.Dir(path)); err != nil {
		return fmt.Errorf("watch %s: %w", path, err)
	}
	tick := time.NewTicker(rescan)
	defer tick.Stop()
	var last []byte
	quiet := time.NewTimer(0)
	defer quiet.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-watcher.Errors:
			failed(fmt.Errorf("watch %s: %w", path, err))
		case <-watcher.Events:
			quiet.Reset(settle)
		case <-tick.C:
			quiet.Reset(0)
		case <-quiet.C:
			last = reread(path, last, changed, failed)
		}
	}
}

// reread reports the file where it differs from last, and returns its contents.
func reread(path string, last []byte, changed func(*Cluster), failed func(error)) []byte {
	data, err := read(path)
	if err != nil {
		data = []byte(err.Error())
	}
	if bytes.Equal(data, last) {
		return last
	}
	if err != nil {
		failed(err)
		return data
	}
	c, err := Parse(path, data)
	if err != nil {
		failed(err)
		return data
	}
	changed(c)
	return data
}

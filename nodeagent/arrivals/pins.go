// SPDX-License-Identifier: Apache-2.0

package arrivals

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

// Names in a folder of pins: the maps by their own names, links as KIND_PLACE, and
// marks.
var folderName = regexp.MustCompile(`^v[0-9]+(-[0-9]+)?$`)

// pinnedLinks are the links of one kind that a predecessor left, by name.
type pinnedLinks struct {
	links map[string]link.Link
}

// pinnedLinks loads them.
func (s *store) pinnedLinks(kind Attachment) (*pinnedLinks, error) {
	return loadLinks(s.path, string(kind)+"_")
}

func loadLinks(dir, prefix string) (*pinnedLinks, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read folder of pins: %w", err)
	}
	p := &pinnedLinks{links: map[string]link.Link{}}
	for _, entry := range entries {
		if entry.IsDir() || !strings.HasPrefix(entry.Name(), prefix) {
			continue
		}
		path := filepath.Join(dir, entry.Name())
		l, err := link.LoadPinnedLink(path, nil)
		if err != nil {
			p.close()
			return nil, fmt.Errorf("load pinned link %s: %w", path, err)
		}
		p.links[entry.Name()] = l
	}
	return p, nil
}

// keep takes a link at the hook out of what is to be removed, if it runs the
// program, and returns its name.
func (p *pinnedLinks) keep(hook string, program *ebpf.Program) (string, bool) {
	for name, l := range p.links {
		if !strings.HasPrefix(name, fmt.Sprintf("%s_%s_", Netfilter, hook)) {
			continue
		}
		info, err := l.Info()
		if err != nil || !sameProgram(info.Program, program) {
			continue
		}
		delete(p.links, name)
		l.Close()
		return name, true
	}
	return "", false
}

// removeOthers detaches what was not kept.
func (p *pinnedLinks) removeOthers(log *slog.Logger) error {
	var errs []error
	for name, l := range p.links {
		if err := l.Unpin(); err != nil {
			errs = append(errs, fmt.Errorf("unpin link %s: %w", name, err))
			continue
		}
		log.Info("link of a predecessor removed", "link", name)
	}
	return errors.Join(errs...)
}

func (p *pinnedLinks) close() {
	for _, l := range p.links {
		l.Close()
	}
}

// dropLinks detaches links of other kinds, and all links of other layouts, whose
// maps stay.
func (s *store) dropLinks(keep Attachment) error {
	var errs []error
	for _, dir := range layouts(s.dir) {
		for _, kind := range []Attachment{Netfilter, TCX} {
			if kind == keep && dir == s.path {
				continue
			}
			links, err := loadLinks(dir, string(kind)+"_")
			if err != nil {
				errs = append(errs, err)
				continue
			}
			errs = append(errs, links.removeOthers(s.log))
			links.close()
		}
		if keep != Clsact || dir != s.path {
			errs = append(errs, dropFilters(dir, keep == Clsact))
		}
	}
	return errors.Join(errs...)
}

// layouts lists the folders of pins under dir.
func layouts(dir string) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var found []string
	for _, entry := range entries {
		if entry.IsDir() && folderName.MatchString(entry.Name()) {
			found = append(found, filepath.Join(dir, entry.Name()))
		}
	}
	return found
}

// Cleanup detaches everything that a Counter with this Options.Dir attached in
// the current network namespace, and removes its maps and folders. Anything else
// there stays, and is named in the error.
func Cleanup(dir string) error {
	if dir == "" {
		dir = defaultDir
	}
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var errs []error
	for _, folder := range layouts(dir) {
		errs = append(errs, cleanFolder(folder))
	}
	if err := os.Remove(dir); err != nil {
		errs = append(errs, fmt.Errorf("remove folder of pins: %w", err))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("arrivals: clean up: %w", err)
	}
	return nil
}

// cleanFolder removes what bears a name of ours: links first, so that nothing is
// counted into maps that are gone from view.
func cleanFolder(folder string) error {
	errs := []error{dropFilters(folder, false)}
	for _, pattern := range []string{string(Netfilter) + "_*", string(TCX) + "_*", "[a-z]*"} {
		paths, err := filepath.Glob(filepath.Join(folder, pattern))
		if err != nil {
			return fmt.Errorf("list %s: %w", folder, err)
		}
		for _, path := range paths {
			if pattern != "[a-z]*" || isMap(filepath.Base(path)) {
				errs = append(errs, os.Remove(path))
			}
		}
	}
	for _, inode := range marks(folder, "netns") {
		errs = append(errs, unmark(folder, "netns", inode))
	}
	return errors.Join(append(errs, os.Remove(folder))...)
}

func isMap(name string) bool {
	switch name {
	case "arrivals", "flows", "names", "origins", "services", "settings", "stats":
		return true
	}
	return false
}

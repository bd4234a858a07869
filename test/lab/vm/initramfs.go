// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

//go:embed init.sh
var initScript []byte

//go:embed guest.sh
var guestScript []byte

// bootModules are what the guest needs to see the host's files; all else it
// loads by itself from there.
var bootModules = []string{"virtio_pci", "virtio_console", "9pnet_virtio", "9p", "overlay"}

// writeInitramfs writes a cpio archive that holds busybox, the two scripts, the
// boot modules in the order of their dependencies, and the command.
func writeInitramfs(ctx context.Context, w io.Writer, k Kernel, command []byte) error {
	busybox, err := readBusybox()
	if err != nil {
		return err
	}
	order, err := loadOrder(k, bootModules)
	if err != nil {
		return err
	}
	ar := &archive{w: w}
	for _, dir := range []string{"bin", "dev", "proc", "sys", "modules"} {
		ar.add(dir, 0o040755, nil)
	}
	ar.add("bin/busybox", 0o100755, busybox)
	ar.add("init", 0o100755, initScript)
	ar.add("guest.sh", 0o100644, guestScript)
	ar.add("command.sh", 0o100644, command)
	var names []string
	for _, path := range order {
		image, err := readModule(ctx, path)
		if err != nil {
			return err
		}
		name := strings.TrimSuffix(filepath.Base(path), ".xz")
		ar.add("modules/"+name, 0o100644, image)
		names = append(names, name)
	}
	ar.add("modules/order", 0o100644, []byte(strings.Join(names, "\n")))
	return ar.close()
}

// readBusybox reads the static busybox of Debian's package busybox-static.
func readBusybox() ([]byte, error) {
	path, err := exec.LookPath("busybox")
	if errors.Is(err, exec.ErrNotFound) {
		return nil, errors.New("busybox is not on PATH: install busybox-static (`make deps`)")
	}
	image, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read busybox: %w", err)
	}
	if bytes.Contains(image[:min(len(image), 4096)], []byte("/ld-linux")) {
		return nil, fmt.Errorf("%s is linked dynamically: install busybox-static (`make deps`)", path)
	}
	return image, nil
}

// readModule returns a kernel module, unpacked.
func readModule(ctx context.Context, path string) ([]byte, error) {
	if !strings.HasSuffix(path, ".xz") {
		return os.ReadFile(path)
	}
	out, err := command(ctx, "", "xz", "-dc", path)
	return []byte(out), err
}

// loadOrder returns the paths of the modules and of all that they depend on,
// each after its dependencies. Modules that are part of the kernel image are
// left out.
func loadOrder(k Kernel, modules []string) ([]string, error) {
	dir := filepath.Join(k.Modules(), k.Version)
	table, err := os.ReadFile(filepath.Join(dir, "modules.dep"))
	if err != nil {
		return nil, fmt.Errorf("read the modules of %s: %w", k.Version, err)
	}
	builtin, err := os.ReadFile(filepath.Join(dir, "modules.builtin"))
	if err != nil {
		return nil, fmt.Errorf("read the modules of %s: %w", k.Version, err)
	}
	depends := parseDepends(string(table))
	var order []string
	for _, name := range modules {
		if bytes.Contains(builtin, []byte("/"+name+".ko\n")) {
			continue
		}
		paths, found := depends[name]
		if !found {
			return nil, fmt.Errorf("kernel %s has no module %s", k.Version, name)
		}
		for _, p := range paths {
			if p = filepath.Join(dir, p); !slices.Contains(order, p) {
				order = append(order, p)
			}
		}
	}
	return order, nil
}

// parseDepends reads depmod's modules.dep: "path: dependency…", the dependency
// that loads first being last. The result holds, by module name, paths in the
// order of loading.
func parseDepends(table string) map[string][]string {
	depends := map[string][]string{}
	for line := range strings.Lines(table) {
		path, rest, ok := strings.Cut(strings.TrimSpace(line), ":")
		if !ok {
			continue
		}
		paths := append([]string{path}, strings.Fields(rest)...)
		slices.Reverse(paths)
		name, _, _ := strings.Cut(filepath.Base(path), ".ko")
		depends[name] = paths
	}
	return depends
}

// archive writes the kernel's initramfs format: cpio "newc", all owned by root
// (Documentation/driver-api/early-userspace/buffer-format.rst).
type archive struct {
	w     io.Writer
	inode int
	err   error
}

func (a *archive) add(name string, mode int, data []byte) {
	if a.err != nil {
		return
	}
	a.inode++
	var b bytes.Buffer
	fmt.Fprintf(&b, "070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x",
		a.inode, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name)+1, 0)
	b.WriteString(name)
	b.WriteByte(0)
	pad(&b)
	b.Write(data)
	pad(&b)
	_, a.err = a.w.Write(b.Bytes())
}

func (a *archive) close() error {
	a.add("TRAILER!!!", 0, nil)
	return a.err
}

// pad fills b up to the next multiple of four bytes.
func pad(b *bytes.Buffer) {
	for b.Len()%4 != 0 {
		b.WriteByte(0)
	}
}

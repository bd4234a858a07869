// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// suite is the Debian release that the kernel comes from, and series the kernel
// series that it carries: a cached kernel of that series is used without asking
// apt for a newer one. The generic flavour is needed, since the cloud flavour has
// no 9p file system.
const (
	suite       = "trixie"
	series      = "6.12."
	metaPackage = "linux-image-amd64"
)

// Kernel is an unpacked Debian kernel package.
type Kernel struct {
	Version string // as uname -r tells it, such as 6.12.117+deb13-amd64
	Dir     string // holds boot/, lib/modules/VERSION/ and the package's other files
}

// Image is the path of the kernel's bootable image.
func (k Kernel) Image() string { return filepath.Join(k.Dir, "boot", "vmlinuz-"+k.Version) }

// Modules is the folder to be seen at /lib/modules.
func (k Kernel) Modules() string { return filepath.Join(k.Dir, "usr", "lib", "modules") }

// FindKernel returns the newest cached kernel, or else downloads and unpacks one
// with apt and dpkg into the user's cache folder. It needs no root.
func FindKernel(ctx context.Context) (Kernel, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return Kernel{}, fmt.Errorf("find the cache folder: %w", err)
	}
	cache = filepath.Join(cache, "weir", "kernel")
	if k, ok := cached(cache); ok {
		return k, nil
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return Kernel{}, fmt.Errorf("make the kernel cache: %w", err)
	}
	return fetch(ctx, cache)
}

// cached returns the newest kernel of the series under cache. Names compare by
// length first, since Debian counts its versions without leading zeros.
func cached(cache string) (Kernel, bool) {
	found, _ := filepath.Glob(filepath.Join(cache, series+"*"))
	if len(found) == 0 {
		return Kernel{}, false
	}
	newest := slices.MaxFunc(found, func(a, b string) int {
		if d := len(a) - len(b); d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	return Kernel{Version: filepath.Base(newest), Dir: newest}, true
}

// fetch downloads the kernel package into a folder beside its final place and
// renames it when it is complete, so that an interrupted or a concurrent fetch
// never leaves half a kernel behind.
func fetch(ctx context.Context, cache string) (Kernel, error) {
	pkg, err := kernelPackage(ctx)
	if err != nil {
		return Kernel{}, err
	}
	version := strings.TrimPrefix(pkg, "linux-image-")
	work, err := os.MkdirTemp(cache, "fetch-")
	if err != nil {
		return Kernel{}, fmt.Errorf("make a folder for %s: %w", pkg, err)
	}
	defer os.RemoveAll(work)
	if _, err := command(ctx, work, "apt-get", "-q", "download", "-t", suite, pkg); err != nil {
		return Kernel{}, fmt.Errorf("%w (does `apt-get update` help?)", err)
	}
	debs, err := filepath.Glob(filepath.Join(work, "*.deb"))
	if err != nil || len(debs) != 1 {
		return Kernel{}, fmt.Errorf("download %s: %d packages in %s, want 1", pkg, len(debs), work)
	}
	root := filepath.Join(work, "root")
	if _, err := command(ctx, work, "dpkg", "-x", debs[0], root); err != nil {
		return Kernel{}, err
	}
	if err := unpackModules(ctx, filepath.Join(root, "usr", "lib", "modules", version, "kernel")); err != nil {
		return Kernel{}, err
	}
	// depmod looks for lib/modules; a Debian 13 package has usr/lib only.
	if err := os.Symlink("usr/lib", filepath.Join(root, "lib")); err != nil && !errors.Is(err, os.ErrExist) {
		return Kernel{}, fmt.Errorf("prepare %s: %w", pkg, err)
	}
	if _, err := command(ctx, work, "depmod", "-b", root, version); err != nil {
		return Kernel{}, err
	}
	k := Kernel{Version: version, Dir: filepath.Join(cache, version)}
	if err := os.Rename(root, k.Dir); err != nil && !errors.Is(err, os.ErrExist) {
		return Kernel{}, fmt.Errorf("store %s: %w", pkg, err)
	}
	return k, nil
}

// unpacked are the folders whose modules tests and the lab load.
var unpacked = []string{"net", "lib", "crypto", "drivers/net"}

// unpackModules decompresses those modules: in an emulated guest that takes a
// second for each, and a first nftables table loads twenty.
func unpackModules(ctx context.Context, dir string) error {
	for _, part := range unpacked {
		var packed []string
		err := filepath.WalkDir(filepath.Join(dir, part), func(path string, _ fs.DirEntry, err error) error {
			if strings.HasSuffix(path, ".ko.xz") {
				packed = append(packed, path)
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("unpack modules: %w", err)
		}
		for batch := range slices.Chunk(packed, 500) {
			if _, err := command(ctx, dir, "xz", append([]string{"-d"}, batch...)...); err != nil {
				return err
			}
		}
	}
	return nil
}

var dependsOnKernel = regexp.MustCompile(`Depends: (linux-image-(\S+))`)

// kernelPackage asks apt which package the suite's kernel is in at present.
func kernelPackage(ctx context.Context) (string, error) {
	const advice = "run `make deps`, which sets up the package source of Debian " + suite
	out, err := command(ctx, "", "apt-cache", "depends", "-t", suite, metaPackage)
	if err != nil {
		return "", fmt.Errorf("%w; %s", err, advice)
	}
	m := dependsOnKernel.FindStringSubmatch(out)
	if m == nil {
		return "", fmt.Errorf("apt knows no %s; %s", metaPackage, advice)
	}
	if !strings.HasPrefix(m[2], series) {
		return "", fmt.Errorf("apt offers %s, want series %s*; %s", m[1], series, advice)
	}
	return m[1], nil
}

// command runs a tool in dir and returns its output; an error carries the last
// line that the tool printed.
func command(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	// apt and depmod live in sbin folders that a user's PATH may lack.
	cmd.Env = append(os.Environ(), "LC_ALL=C", "PATH="+os.Getenv("PATH")+":/usr/sbin:/sbin")
	if p, err := exec.LookPath("/usr/sbin/" + name); err == nil {
		cmd.Path, cmd.Err = p, nil
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		lines := strings.Split(strings.TrimSpace(stderr.String()), "\n")
		return "", fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, lines[len(lines)-1])
	}
	return stdout.String(), nil
}

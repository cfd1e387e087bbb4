package vm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// Kernel is a kernel of Debian's, unpacked.
type Kernel struct {
	// Suite of Debian it is from, such as bookworm-backports.
	Suite string
	// Release as uname tells it, such as 6.1.0-48-cloud-amd64.
	Release string
	image   string
	modules string // the directory of its modules
}

// Debian's kernel for virtual machines: small, and with all of the network.
const kernelPackage = "linux-image-cloud-amd64"

// Stable brings the newest kernel of the Debian that this machine runs, Backports the
// one that is offered for it beside. Both are fetched once and kept in the user's cache.
func Stable(ctx context.Context) (Kernel, error) { return bring(ctx, "") }

// Backports: see [Stable].
func Backports(ctx context.Context) (Kernel, error) { return bring(ctx, "-backports") }

func bring(ctx context.Context, beside string) (k Kernel, err error) {
	if runtime.GOARCH != "amd64" {
		return k, fmt.Errorf("the kernels are those for amd64, and this is %s", runtime.GOARCH)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return k, err
	}
	codename, err := exec.CommandContext(ctx, "bash", "-c", ". /etc/os-release && echo -n $VERSION_CODENAME").Output()
	if err != nil {
		return k, err
	}
	k.Suite = string(codename) + beside
	apt := archive{dir: filepath.Join(cache, "plumb", "kernels", k.Suite)}
	if beside != "" {
		if err := apt.only(ctx, k.Suite); err != nil {
			return k, err
		}
	}
	if k, err = apt.kernel(ctx, k); err == nil || beside != "" {
		return k, err
	}
	// This machine may not have asked for long what there is.
	if _, updated := apt.run(ctx, "apt-get", "update", "-qq"); updated != nil {
		return k, errors.Join(err, updated)
	}
	return apt.kernel(ctx, k)
}

// kernel finds the kernel of the archive, and brings it if it is not there.
func (a *archive) kernel(ctx context.Context, k Kernel) (Kernel, error) {
	depends, err := a.run(ctx, "apt-cache", "depends", "--important", kernelPackage)
	if err != nil {
		return k, err
	}
	_, name, found := strings.Cut(depends, "Depends: ")
	if !found {
		return k, fmt.Errorf("%s of %s names no kernel: %q", kernelPackage, k.Suite, depends)
	}
	name = strings.TrimSpace(name)
	k.Release = strings.TrimPrefix(name, "linux-image-")
	root := filepath.Join(a.dir, name)
	k.image, k.modules = filepath.Join(root, "boot", "vmlinuz-"+k.Release), filepath.Join(root, "lib", "modules", k.Release)
	if _, err := os.Stat(root); err == nil {
		return k, nil
	}
	return k, a.unpack(ctx, name, k.Release, root)
}

// archive is where packages come from, and the directory for what is fetched.
type archive struct {
	dir     string
	options []string
}

// only takes packages from one suite that this machine may not know.
func (a *archive) only(ctx context.Context, suite string) error {
	lists := filepath.Join(a.dir, "lists")
	if err := os.MkdirAll(filepath.Join(lists, "partial"), 0o755); err != nil {
		return err
	}
	source := "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian " + suite + " main\n"
	file := filepath.Join(a.dir, "source.list")
	if err := os.WriteFile(file, []byte(source), 0o644); err != nil {
		return err
	}
	a.options = []string{"-o", "Dir::Etc::sourcelist=" + file, "-o", "Dir::Etc::sourceparts=/dev/null",
		"-o", "Dir::State::lists=" + lists, "-o", "Dir::Cache::pkgcache=", "-o", "Dir::Cache::srcpkgcache="}
	_, err := a.run(ctx, "apt-get", "update", "-qq")
	return err
}

func (a *archive) run(ctx context.Context, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, append(a.options, args...)...)
	if _, err := os.Stat(a.dir); err == nil {
		cmd.Dir = a.dir
	}
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w%s", strings.Join(cmd.Args, " "), err, stderr(err))
	}
	return string(out), nil
}

func stderr(err error) string {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return "\n" + string(exit.Stderr)
	}
	return ""
}

// unpack fetches a package and makes of it what a machine boots from. It is there as a
// whole or not at all.
func (a *archive) unpack(ctx context.Context, name, release, root string) error {
	if err := os.MkdirAll(a.dir, 0o755); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(a.dir, "unpack-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	in := *a
	in.dir = tmp
	if _, err := in.run(ctx, "apt-get", "download", "-qq", name); err != nil {
		return err
	}
	debs, err := filepath.Glob(filepath.Join(tmp, "*.deb"))
	if err != nil {
		return err
	}
	if len(debs) != 1 {
		return fmt.Errorf("%d packages were fetched for %s", len(debs), name)
	}
	at := filepath.Join(tmp, "root")
	script := `dpkg-deb -x "$1" "$2" &&
		find "$2" -name '*.ko.xz' -exec xz -d {} + && depmod -b "$2" "$3"`
	cmd := exec.CommandContext(ctx, "bash", "-c", script, "unpack", debs[0], at, release)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("unpack %s: %w\n%s", name, err, out)
	}
	if err := os.Rename(at, root); err != nil && !os.IsExist(err) {
		return err
	}
	return nil
}

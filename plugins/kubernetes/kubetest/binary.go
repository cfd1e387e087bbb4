package kubetest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"syscall"
)

// main is the package that is built.
const main = "k8s.io/kubernetes/cmd/kube-apiserver"

var required = regexp.MustCompile(`(?m)^\s*(?:require )?k8s\.io/kubernetes v(\d+)\.(\d+)\.(\d+)$`)

// Binary returns the path of the API server, and builds it if this user has none: that takes five minutes of
// two processors and 3 GB of the build cache. Other processes that want it wait meanwhile.
func Binary(ctx context.Context) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	_, source, _, _ := runtime.Caller(0)
	dir := filepath.Join(filepath.Dir(source), "apiserver") // a module of its own cannot be embedded
	modules, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return "", err
	}
	sums, err := os.ReadFile(filepath.Join(dir, "go.sum"))
	if err != nil {
		return "", err
	}
	version := required.FindSubmatch(modules)
	if version == nil {
		return "", errors.New("apiserver/go.mod does not require k8s.io/kubernetes")
	}
	release := fmt.Sprintf("%s.%s.%s", version[1], version[2], version[3])
	sum := sha256.Sum256(append(modules, sums...))
	file := filepath.Join(cache, "plumb", fmt.Sprintf("kube-apiserver-%s-%x", release, sum[:6]))
	if _, err := os.Stat(file); err == nil {
		return file, nil
	}
	unlock, err := lock(ctx, file+".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(file); err == nil { // built while this process waited
		return file, nil
	}
	const set = "k8s.io/component-base/version."
	build := exec.CommandContext(ctx, "nice", "-n", "19", "go", "build", "-mod=readonly", "-p", "2", "-trimpath", "-buildvcs=false",
		"-o", file+".new", "-ldflags", fmt.Sprintf("-s -w -X %[1]sgitVersion=v%[2]s -X %[1]sgitMajor=%[3]s -X %[1]sgitMinor=%[4]s -X %[1]sgitTreeState=clean",
			set, release, version[1], version[2]), main)
	build.Dir = dir
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	build.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("kube-apiserver %s cannot be built: %w\n%s", release, err, out)
	}
	return file, os.Rename(file+".new", file)
}

// lock waits for the lock of a file. It is released when the process ends, too.
func lock(ctx context.Context, file string) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	got := make(chan error, 1)
	go func() { got <- syscall.Flock(int(f.Fd()), syscall.LOCK_EX) }()
	select {
	case err = <-got:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return func() { f.Close() }, nil
}

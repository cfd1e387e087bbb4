// Package hosttest is a kernel for the tests of what works on the port: the one in memory, and that
// of this host.
package hosttest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/kernel/kerneltest"
	"github.com/plumb-net/plumb/plugins/netlink"
	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
)

// Kernel is a kernel with a count of what it was asked to change.
type Kernel interface {
	kernel.Kernel
	Writes() uint64
}

// Host is a kernel with namespaces of the test's own, and somebody else who works on it.
type Host struct {
	Kernel
	// NamedDir is where its named namespaces are.
	NamedDir string
	// Net is the own namespace of a Linux, nil of a kernel in memory.
	Net *netlinktest.Namespace
}

// OnEachKernel runs a test on the kernel in memory and on that of this host.
func OnEachKernel(t *testing.T, test func(t *testing.T, h *Host)) {
	t.Helper()
	t.Run("memory", func(t *testing.T) { test(t, Memory()) })
	t.Run("linux", func(t *testing.T) { test(t, Linux(t)) })
}

// OnEachDebian is OnEachKernel for what the kernel of a host may lack: under those of Debian, which
// tests/kernels brings, it runs on Linux, and elsewhere in memory.
func OnEachDebian(t *testing.T, test func(t *testing.T, h *Host)) {
	t.Helper()
	if OnDebian() {
		t.Run("linux", func(t *testing.T) { test(t, Linux(t)) })
		return
	}
	t.Run("memory", func(t *testing.T) { test(t, Memory()) })
}

// OnDebian reports whether the kernel of this host is one that tests/kernels has brought.
func OnDebian() bool { return os.Getenv("PLUMB_KERNEL") != "" }

// Memory is a kernel in memory.
func Memory() *Host {
	const dir = "/run/netns"
	return &Host{Kernel: kerneltest.New(kerneltest.Options{NamedDir: dir}), NamedDir: dir}
}

// Linux is the kernel of this host. Its namespaces have IPv6, as those of the kernel in memory.
func Linux(t *testing.T) *Host {
	t.Helper()
	h := &Host{NamedDir: netlinktest.Dir(t), Net: netlinktest.New(t)}
	h.Net.IPv6(t)
	k, err := netlink.New(netlink.Options{OwnPath: h.Net.Path, NamedDir: h.NamedDir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { k.Close() })
	h.Kernel = k
	return h
}

// Named makes a namespace with a name that ends with the test.
func (h *Host) Named(t testing.TB, name string) (ns kernel.NS, path string) {
	t.Helper()
	ns, err := h.CreateNamed(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.DeleteNamed(name) })
	path = filepath.Join(h.NamedDir, name)
	if h.Net != nil {
		netlinktest.Inherit(t, path)
		(&netlinktest.Namespace{Path: path}).IPv6(t)
	}
	return ns, path
}

// Do is what somebody else does in a namespace, by a command of ip(8) or bridge(8).
func (h *Host) Do(t testing.TB, ns kernel.NS, command string) {
	t.Helper()
	if err := kerneltest.IP(h, ns, command); err != nil {
		t.Fatalf("%s: %v", command, err)
	}
}

// Shows reports whether one of the commands that print what there is has all of the words.
func (h *Host) Shows(t testing.TB, words ...string) bool {
	t.Helper()
	text, err := kerneltest.Text(h)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(text) {
		all := true
		for _, w := range words {
			all = all && strings.Contains(line, w)
		}
		if all {
			return true
		}
	}
	return false
}

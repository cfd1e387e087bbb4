package netlink_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/plugins/netlink"
	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
)

func TestMain(m *testing.M) {
	if to := os.Getenv(actorsRoute); to != "" {
		deleteRoute(to)
		return
	}
	goleak.VerifyTestMain(m)
}

// bench is a Kernel whose own namespace belongs to the test.
type bench struct {
	*netlink.Kernel
	own *netlinktest.Namespace
}

func newKernel(t testing.TB, opts netlink.Options) *bench {
	t.Helper()
	own := netlinktest.New(t)
	own.IPv6(t)
	opts.OwnPath = own.Path
	if opts.NamedDir == "" {
		opts.NamedDir = netlinktest.Dir(t)
	}
	k, err := netlink.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { k.Close() })
	return &bench{Kernel: k, own: own}
}

// open opens one more namespace.
func (b *bench) open(t testing.TB) (kernel.NS, *netlinktest.Namespace) {
	t.Helper()
	n := netlinktest.New(t)
	n.IPv6(t)
	id, err := b.Open(n.Path)
	if err != nil {
		t.Fatal(err)
	}
	return id, n
}

// add makes a link that a test needs.
func (b *bench) add(t testing.TB, ns kernel.NS, spec kernel.LinkSpec) kernel.Link {
	t.Helper()
	l, err := b.AddLink(ns, spec)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

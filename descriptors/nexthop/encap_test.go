package nexthop_test

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/kernel/kerneltest"
	"github.com/plumb-net/plumb/plugins/netlink/hosttest"
	"github.com/plumb-net/plumb/scheduler"
)

// TestNoSuchEncap: what the kernel has not is told once, and not tried again.
func TestNoSuchEncap(t *testing.T) {
	hosttest.OnEachKernel(t, func(t *testing.T, h *hosttest.Host) {
		b := newBenchOn(t, h)
		if k, ok := h.Kernel.(*kerneltest.Kernel); ok { // which has
			k.Fail("AddNexthop", 1, syscall.EOPNOTSUPP)
		}
		err := b.create("nexthop/n", `{"id":7,"interface":"a","gateway":"10.0.0.9","encap":{"labels":[100,200],"ttl":9}}`)
		var class *scheduler.OpError
		switch {
		case err == nil && h.Net != nil: // it has
			if text := b.reads("nexthop/n"); !strings.Contains(text, `"encap":{"ttl":9,"labels":[100,200]}`) {
				t.Errorf("reads %s", text)
			}
		case !errors.Is(err, kernel.ErrUnsupported), !errors.As(err, &class), !class.Terminal, !strings.Contains(err.Error(), "modprobe mpls_iptunnel"):
			t.Error(err)
		}
	})
}

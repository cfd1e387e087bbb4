package route_test

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/kernel/kerneltest"
	"github.com/plumb-net/plumb/plugins/netlink/hosttest"
	"github.com/plumb-net/plumb/scheduler"
)

// TestEncapOfOthers: what somebody else has a route put packets into is told from what was
// asked for, also where no value can say it.
func TestEncapOfOthers(t *testing.T) {
	b := newBench(t)
	b.must("r", `{"interface":"a","destination":"10.1.0.0/16","encap":{"id":7,"dst":"192.0.2.1"}}`)
	b.same()
	for encap, says := range map[string]string{
		"ip id 8 dst 192.0.2.1 key":                    "ip id 8 dst 192.0.2.1",
		"ip id 7 dst 192.0.2.1":                        "ip dst ?", // its number is no key
		"ip id 7 dst 192.0.2.1 key csum":               "ip id 7 dst 192.0.2.1 checksum",
		"ip id 7 dst 192.0.2.1 key seq":                "ip dst ?",
		"ip id 4294967296 dst 192.0.2.1 key":           "ip dst ?",
		"ip6 id 7 dst 2001:db8::1 hoplimit 9 tc 1 key": "ip id 7 dst 2001:db8::1 ttl 9 tos 1",
		"seg6 mode encap segs 2001:db8::9":             "ip dst ?",
	} {
		b.net.IP(t, fmt.Sprintf("route replace 10.1.0.0/16 encap %s dev a proto %d", encap, kernel.Protocol(label)))
		for f, err := range b.kind.Retrieve(t.Context(), scope{Keys: []scheduler.Key{"route/r"}}) {
			if err != nil || f.Value.GetEncap().Text() != says {
				t.Errorf("%s: %q, %v", encap, f.Value.GetEncap().Text(), err)
			}
		}
	}
	b.update("r", `{"interface":"a","destination":"10.1.0.0/16","encap":{"id":7,"dst":"192.0.2.1"}}`)
	b.same()
	b.delete("r")
	if left := b.shown(); left != "" {
		t.Errorf("left: %s", left)
	}
}

// TestNoSuchEncap: what the kernel has not is told once, and not tried again.
func TestNoSuchEncap(t *testing.T) {
	hosttest.OnEachKernel(t, func(t *testing.T, h *hosttest.Host) {
		b := newBenchOn(t, h)
		for name, v := range map[string]string{
			"one":  `{"interface":"a","destination":"10.1.0.0/16","gateway":"10.0.0.9","encap":{"labels":[100,200]}}`,
			"many": `{"destination":"10.2.0.0/16","nexthops":[{"interface":"a","gateway":"10.0.0.9"},{"interface":"b","gateway":"10.0.1.9","encap":{"labels":[100]}}]}`,
		} {
			if k, ok := h.Kernel.(*kerneltest.Kernel); ok { // which has
				k.Fail("AddRoute", 1, syscall.EOPNOTSUPP)
			}
			err := b.add(name, v)
			var class *scheduler.OpError
			switch {
			case err == nil && h.Net != nil: // it has
				b.same()
			case !errors.Is(err, kernel.ErrUnsupported), !errors.As(err, &class), !class.Terminal, !strings.Contains(err.Error(), "modprobe mpls_iptunnel"):
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

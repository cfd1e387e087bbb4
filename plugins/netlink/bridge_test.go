package netlink_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/plugins/netlink"
)

// TestBridgesWithoutVLANs: a kernel that has bridges, but not their VLANs, does not ask for a module.
func TestBridgesWithoutVLANs(t *testing.T) {
	b := newKernel(t, netlink.Options{})
	on := true
	filters := kernel.BridgeSpec{VLANFiltering: &on}
	l, err := b.AddLink(b.Own(), kernel.LinkSpec{Name: "br", Bridge: &filters})
	if err == nil { // on a kernel whose bridges have VLANs
		if l.Bridge.VLANFiltering == nil || !*l.Bridge.VLANFiltering {
			t.Errorf("a bridge that filters VLANs is %+v", *l.Bridge)
		}
		return
	}
	index := b.add(t, b.Own(), kernel.LinkSpec{Name: "plain", Bridge: &kernel.BridgeSpec{}}).Index
	patch := kernel.LinkPatch{Bridge: &filters}
	errs := append(b.SetLinks(b.Own(), []kernel.LinkChange{{Index: index, Patch: patch}}), err, b.SetLink(b.Own(), index, patch))
	for _, err := range errs {
		if !errors.Is(err, kernel.ErrUnsupported) || !strings.Contains(err.Error(), "its bridges have no VLANs") || strings.Contains(err.Error(), "module") {
			t.Error(err)
		}
	}
}

package agent

import (
	"strings"
	"testing"
	"time"

	"github.com/plumb-net/plumb/plugins/netlink"
	"github.com/plumb-net/plumb/plugins/openfiles"
)

// A namespace of another type is none that a container can have.
func TestNamespacesOfOtherTypes(t *testing.T) {
	h := cniHost{&agent{host: &host{kernel: &ground{Kernel: &hostKernel{Kernel: &netlink.Kernel{}}}}}}
	for _, kind := range []string{"mnt", "user", "pid", "uts", "ipc", "cgroup"} {
		if inode, own := h.Namespace("/proc/self/ns/" + kind); inode != 0 || own {
			t.Errorf("%s: %d, %v", kind, inode, own)
		}
	}
	if inode, _ := h.Namespace("/proc/self/ns/net"); inode == 0 {
		t.Error("that of the network is none")
	}
}

// Who looks after the host is told before containers are refused.
func TestFilesNearTheLimit(t *testing.T) {
	for _, c := range []struct {
		u             openfiles.Usage
		state, reason string
	}{
		{openfiles.Usage{Open: 819, Limit: 1024}, "", ""},
		{openfiles.Usage{Open: 820, Limit: 1024}, "ok", "820 of 1024 open files; with 76 more no namespace is opened any more: raise LimitNOFILE"},
		{openfiles.Usage{Open: 896, Limit: 1024}, "degraded", "the limit of open files (1024) is reached: 896 are open, and 128 are kept free"},
	} {
		got := filesHealth(time.Now(), c.u)
		if c.state == "" {
			if len(got) != 0 {
				t.Errorf("%v: %v", c.u, got)
			}
			continue
		}
		if len(got) != 1 || got[0].State != c.state || !strings.HasPrefix(got[0].Reason, c.reason) || got[0].Details["limit"] != "1024" {
			t.Errorf("%v: %+v", c.u, got)
		}
	}
}

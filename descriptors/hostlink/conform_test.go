package hostlink_test

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/plumb-net/plumb/descriptors/hostlink"
	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/selector"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/netlink/hosttest"
	"github.com/plumb-net/plumb/scheduler"
	"github.com/plumb-net/plumb/scheduler/schedulertest"
)

// TestConform holds the kind to the contract of descriptors, on each kernel:
// links of the agent's own namespace and of another that is looked at on demand.
func TestConform(t *testing.T) {
	hosttest.OnEachKernel(t, conform)
}

func conform(t *testing.T, h *hosttest.Host) {
	blue, path := h.Named(t, "blue")
	d := hostlink.New(hostlink.Deps{Kernel: h, Owner: kernel.NewOwner("host7", "boot", &kernel.MemLedger{}, nil),
		Names: &kernel.Names{}, Places: &places{k: h, path: path}})
	at := func(key scheduler.Key) (kernel.NS, string) {
		in, host, _ := selector.ParseLinkKey(key)
		if in == nil {
			return h.Own(), host
		}
		return blue, host
	}
	far := selector.LinkKey(&models.Namespace{In: &models.Namespace_Netns{Netns: "blue"}}, "eth0")
	bridge := []*models.HostLink{{Type: "bridge"}}
	schedulertest.Conform(t, d, schedulertest.Spec[*models.HostLink, kernel.LinkRef]{
		Samples: []schedulertest.Sample[*models.HostLink]{
			{Key: "hostlink/eth8", Values: bridge}, {Key: "hostlink/eth9", Values: bridge}, {Key: far, Values: bridge},
		},
		Make: func(t testing.TB, key scheduler.Key, v *models.HostLink) *models.HostLink {
			ns, host := at(key)
			h.Do(t, ns, "ip link add name "+host+" type bridge")
			l, err := h.Link(ns, host)
			if err != nil {
				t.Fatal(err)
			}
			return &models.HostLink{HostName: host, Type: v.Type, Index: uint32(l.Index), MacAddress: l.MAC, Mtu: uint32(l.MTU)}
		},
		Remove: func(t testing.TB, key scheduler.Key) {
			ns, host := at(key)
			h.Do(t, ns, "ip link del dev "+host)
		},
		Clone:     proto.CloneOf[*models.HostLink],
		Identical: func(x, y *models.HostLink) bool { return proto.Equal(x, y) },
	})
}

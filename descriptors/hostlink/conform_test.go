package hostlink_test

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/plumb-net/plumb/descriptors/hostlink"
	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/selector"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/netlink"
	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
	"github.com/plumb-net/plumb/scheduler"
	"github.com/plumb-net/plumb/scheduler/schedulertest"
)

// TestConform holds the kind to the contract of descriptors, on a live kernel:
// links of the agent's own namespace and of another that is looked at on demand.
func TestConform(t *testing.T) {
	own, other := netlinktest.New(t), netlinktest.New(t)
	k, err := netlink.New(netlink.Options{OwnPath: own.Path, NamedDir: netlinktest.Dir(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { k.Close() })
	d := hostlink.New(hostlink.Deps{Kernel: k, Owner: kernel.NewOwner("host7", "boot", &kernel.MemLedger{}, nil),
		Names: &kernel.Names{}, Places: &places{k: k, path: other.Path}})
	at := func(key scheduler.Key) (*netlinktest.Namespace, string) {
		in, host, _ := selector.ParseLinkKey(key)
		if in == nil {
			return own, host
		}
		return other, host
	}
	far := selector.LinkKey(&models.Namespace{In: &models.Namespace_Netns{Netns: "blue"}}, "eth0")
	bridge := []*models.HostLink{{Type: "bridge"}}
	schedulertest.Conform(t, d, schedulertest.Spec[*models.HostLink, kernel.LinkRef]{
		Samples: []schedulertest.Sample[*models.HostLink]{
			{Key: "hostlink/eth8", Values: bridge}, {Key: "hostlink/eth9", Values: bridge}, {Key: far, Values: bridge},
		},
		Make: func(t testing.TB, key scheduler.Key, v *models.HostLink) *models.HostLink {
			n, host := at(key)
			n.IP(t, "link add name "+host+" type bridge")
			l := n.Show(t, host)
			return &models.HostLink{HostName: host, Type: v.Type, Index: uint32(l["ifindex"].(float64)),
				MacAddress: l["address"].(string), Mtu: uint32(l["mtu"].(float64))}
		},
		Remove: func(t testing.TB, key scheduler.Key) {
			n, host := at(key)
			n.IP(t, "link del dev "+host)
		},
		Clone:     proto.CloneOf[*models.HostLink],
		Identical: func(x, y *models.HostLink) bool { return proto.Equal(x, y) },
	})
}

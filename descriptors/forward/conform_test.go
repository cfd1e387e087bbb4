package forward_test

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	kind "github.com/plumb-net/plumb/descriptors/forward"
	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/kernel/kerneltest"
	"github.com/plumb-net/plumb/descriptors/kind/kindtest"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/iptables"
	"github.com/plumb-net/plumb/plugins/netlink"
	"github.com/plumb-net/plumb/plugins/netlink/hosttest"
	"github.com/plumb-net/plumb/plugins/nftables"
	"github.com/plumb-net/plumb/scheduler"
	"github.com/plumb-net/plumb/scheduler/schedulertest"
)

// TestConform holds the kind to the contract of descriptors, on each kernel, with a firewall as
// Docker makes it. Nothing of others is in its way.
func TestConform(t *testing.T) {
	hosttest.OnEachKernel(t, func(t *testing.T, h *hosttest.Host) {
		switch k := h.Kernel.(type) {
		case *kerneltest.Kernel:
			conform(t, h, k.Firewalls(), func(command string) error { return k.Iptables(k.Own(), command) })
		case *netlink.Kernel:
			conform(t, h, iptables.New(k, nftables.New(k, "")), func(command string) error {
				_, err := h.Net.Try(strings.Fields(command)...)
				return err
			})
		}
	})
}

func conform(t *testing.T, h *hosttest.Host, firewalls kernel.Firewalls, run func(command string) error) {
	for _, command := range dockerCommands("iptables-nft") {
		if err := run(command); err != nil {
			t.Fatal(err)
		}
	}
	links := kindtest.AddLinks(t, h, &kernel.Names{}, "apps", "other", "more")
	ledger, poll := &kernel.MemLedger{}, time.NewTicker(10*time.Millisecond)
	defer poll.Stop()
	fresh := func() scheduler.Descriptor[*models.Forward, string] {
		owner := kernel.NewOwner("host7", "boot", ledger, nil)
		return kind.New(kind.Deps{Kernel: h.Kernel, Firewalls: firewalls, Owner: owner, Interfaces: links, Poll: poll.C})
	}
	schedulertest.Conform(t, fresh(), schedulertest.Spec[*models.Forward, string]{
		Samples: []schedulertest.Sample[*models.Forward]{
			{Key: key, Values: []*models.Forward{{Interface: "apps"}, {Interface: "other"}}},
			{Key: "forward/more", Values: []*models.Forward{{Interface: "more"}}},
		},
		Refused: map[scheduler.Key]*models.Forward{"forward/bad": {}},
		Restart: func(testing.TB) scheduler.Descriptor[*models.Forward, string] { return fresh() },
		Remove: func(t testing.TB, k scheduler.Key) {
			all, err := firewalls.Firewalls(t.Context(), h.Own())
			for _, f := range all {
				for _, r := range f.Chains[kernel.DockerUser] {
					if err == nil && r.Comment() == kernel.Comment("host7", string(k)) {
						err = run("iptables-nft -D DOCKER-USER " + r.String())
					}
				}
			}
			if err != nil {
				t.Fatal(err)
			}
		},
		Clone:     proto.CloneOf[*models.Forward],
		Identical: func(x, y *models.Forward) bool { return proto.Equal(x, y) },
	})
}

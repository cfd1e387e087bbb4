package netns_test

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/netlink/hosttest"
	"github.com/plumb-net/plumb/scheduler"
	"github.com/plumb-net/plumb/scheduler/schedulertest"
)

// TestConform holds the kind to the contract of descriptors, on each kernel.
func TestConform(t *testing.T) {
	hosttest.OnEachKernel(t, func(t *testing.T, h *hosttest.Host) { conform(t, newBenchOn(t, h)) })
}

func conform(t *testing.T, b *bench) {
	schedulertest.Conform(t, b.kind, schedulertest.Spec[*models.NetNS, kernel.NS]{
		Samples: []schedulertest.Sample[*models.NetNS]{
			{Key: "netns/blue", Values: []*models.NetNS{{}}},
			{Key: "netns/green", Values: []*models.NetNS{{}, {}}},
			{Key: "netns/red", Values: []*models.NetNS{{}}},
		},
		Restart: func(testing.TB) scheduler.Descriptor[*models.NetNS, kernel.NS] {
			b.restart()
			return b.kind
		},
		Foreign: func(t testing.TB, k scheduler.Key, _ *models.NetNS) func() bool {
			name := string(k)[len("netns/"):]
			ns, _ := b.Named(t, name)
			return func() bool {
				named, err := b.ListNamed()
				return err == nil && named[name] == ns
			}
		},
		Remove: func(t testing.TB, k scheduler.Key) {
			if err := b.DeleteNamed(string(k)[len("netns/"):]); err != nil {
				t.Fatal(err)
			}
		},
		Clone:     proto.CloneOf[*models.NetNS],
		Identical: func(x, y *models.NetNS) bool { return proto.Equal(x, y) },
	})
}

package netns_test

import (
	"path/filepath"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
	"github.com/plumb-net/plumb/scheduler"
	"github.com/plumb-net/plumb/scheduler/schedulertest"
)

// TestConform holds the kind to the contract of descriptors, on a live kernel.
func TestConform(t *testing.T) {
	b := newBench(t)
	path := func(k scheduler.Key) string { return filepath.Join(b.dir, string(k)[len("netns/"):]) }
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
			n := netlinktest.Mount(t, path(k))
			return func() bool {
				named, err := b.ListNamed()
				return err == nil && named[string(k)[len("netns/"):]] == kernel.NS(n.Inode)
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

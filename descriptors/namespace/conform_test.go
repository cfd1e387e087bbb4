package namespace_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	"github.com/plumb-net/plumb/descriptors/namespace"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/netlink"
	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
	"github.com/plumb-net/plumb/scheduler"
	"github.com/plumb-net/plumb/scheduler/schedulertest"
)

// TestConform holds the kind of namespaces at paths to the contract of descriptors.
func TestConform(t *testing.T) {
	own, dir := netlinktest.New(t), t.TempDir()
	k, err := netlink.New(netlink.Options{OwnPath: own.Path, NamedDir: netlinktest.Dir(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { k.Close() })
	// Looked at all the time, since nobody tells of what is mounted.
	poll, stop := make(chan time.Time), make(chan struct{})
	go func() {
		for {
			select {
			case poll <- time.Time{}:
			case <-stop:
				return
			}
		}
	}()
	t.Cleanup(func() { close(stop) })
	file := func(name string) string { return filepath.Join(dir, name) }
	names := map[scheduler.Key]string{}
	var samples []schedulertest.Sample[*models.NamespaceRef]
	for _, name := range []string{"blue", "green"} {
		key := scheduler.Key((&models.Namespace{In: &models.Namespace_Path{Path: file(name)}}).Key())
		names[key] = name
		samples = append(samples, schedulertest.Sample[*models.NamespaceRef]{Key: key, Values: []*models.NamespaceRef{{}}})
	}
	schedulertest.Conform(t, namespace.New(k, namespace.Options{Poll: poll}), schedulertest.Spec[*models.NamespaceRef, struct{}]{
		Samples: samples,
		Make: func(t testing.TB, k scheduler.Key, _ *models.NamespaceRef) *models.NamespaceRef {
			return &models.NamespaceRef{Inode: netlinktest.Mount(t, file(names[k])).Inode}
		},
		Remove: func(t testing.TB, k scheduler.Key) {
			if err := unix.Unmount(file(names[k]), unix.MNT_DETACH); err != nil {
				t.Fatal(err)
			}
			if err := os.Remove(file(names[k])); err != nil {
				t.Fatal(err)
			}
		},
		Clone:     proto.CloneOf[*models.NamespaceRef],
		Identical: func(x, y *models.NamespaceRef) bool { return proto.Equal(x, y) },
	})
}

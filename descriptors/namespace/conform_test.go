package namespace_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	"github.com/plumb-net/plumb/descriptors/kernel/kerneltest"
	"github.com/plumb-net/plumb/descriptors/namespace"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/netlink/hosttest"
	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
	"github.com/plumb-net/plumb/scheduler"
	"github.com/plumb-net/plumb/scheduler/schedulertest"
)

// TestConform holds the kind of namespaces at paths to the contract of descriptors, on each kernel.
func TestConform(t *testing.T) {
	hosttest.OnEachKernel(t, func(t *testing.T, h *hosttest.Host) {
		w := maker{dir: t.TempDir(), make: mount, remove: unmount}
		if k, memory := h.Kernel.(*kerneltest.Kernel); memory {
			w.dir = h.NamedDir
			w.make = func(t testing.TB, path string) uint64 {
				ns, err := k.CreateNamed(filepath.Base(path))
				if err != nil {
					t.Fatal(err)
				}
				return uint64(ns)
			}
			w.remove = func(t testing.TB, path string) {
				if err := k.DeleteNamed(filepath.Base(path)); err != nil {
					t.Fatal(err)
				}
			}
		}
		w.conform(t, h)
	})
}

// maker says how somebody makes namespaces.
type maker struct {
	dir    string
	make   func(t testing.TB, path string) (inode uint64)
	remove func(t testing.TB, path string)
}

func mount(t testing.TB, path string) uint64 { return netlinktest.Mount(t, path).Inode }

func unmount(t testing.TB, path string) {
	if err := unix.Unmount(path, unix.MNT_DETACH); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

func (w maker) conform(t *testing.T, h *hosttest.Host) {
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
	file := func(name string) string { return filepath.Join(w.dir, name) }
	names := map[scheduler.Key]string{}
	var samples []schedulertest.Sample[*models.NamespaceRef]
	for _, name := range []string{"blue", "green"} {
		key := scheduler.Key((&models.Namespace{In: &models.Namespace_Path{Path: file(name)}}).Key())
		names[key] = name
		samples = append(samples, schedulertest.Sample[*models.NamespaceRef]{Key: key, Values: []*models.NamespaceRef{{}}})
	}
	schedulertest.Conform(t, namespace.New(h.Kernel, namespace.Options{Poll: poll}), schedulertest.Spec[*models.NamespaceRef, struct{}]{
		Samples: samples,
		Make: func(t testing.TB, k scheduler.Key, _ *models.NamespaceRef) *models.NamespaceRef {
			return &models.NamespaceRef{Inode: w.make(t, file(names[k]))}
		},
		Remove:    func(t testing.TB, k scheduler.Key) { w.remove(t, file(names[k])) },
		Clone:     proto.CloneOf[*models.NamespaceRef],
		Identical: func(x, y *models.NamespaceRef) bool { return proto.Equal(x, y) },
	})
}

package namespace_test

import (
	"errors"
	"iter"
	"testing"
	"time"

	"github.com/plumb-net/plumb/descriptors/kernel/kerneltest"
	"github.com/plumb-net/plumb/descriptors/namespace"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/netlink"
	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
	"github.com/plumb-net/plumb/scheduler"
)

// refs are the namespaces that are in place.
type refs map[scheduler.Key]*models.NamespaceRef

func (r refs) Get(k scheduler.Key) (v *models.NamespaceRef, _ struct{}, ok bool) {
	v, ok = r[k]
	return v, struct{}{}, ok
}

func (r refs) All() iter.Seq2[scheduler.Key, scheduler.Object[*models.NamespaceRef, struct{}]] {
	return func(func(scheduler.Key, scheduler.Object[*models.NamespaceRef, struct{}]) bool) {}
}

func newKernel(t *testing.T) *netlink.Kernel {
	t.Helper()
	k, err := netlink.New(netlink.Options{OwnPath: netlinktest.New(t).Path, NamedDir: netlinktest.Dir(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { k.Close() })
	return k
}

func TestObserved(t *testing.T) {
	k := newKernel(t)
	p := netlinktest.Start(t)
	tick := make(chan time.Time)
	started := map[uint32]uint64{uint32(p.Pid): 100}
	d := namespace.New(k, namespace.Options{Poll: tick, StartTime: func(pid uint32) (uint64, error) {
		if s, ok := started[pid]; ok {
			return s, nil
		}
		return 0, errors.New("no such process")
	}})
	look := func(keys ...scheduler.Key) map[scheduler.Key]uint64 {
		got := map[scheduler.Key]uint64{}
		s := scheduler.Scope[*models.NamespaceRef, struct{}]{All: len(keys) == 0, Keys: keys}
		for f, err := range d.Retrieve(t.Context(), s) {
			if err != nil {
				got[f.Key] = 0
				t.Logf("%s: %v", f.Key, err)
				continue
			}
			got[f.Key] = f.Value.GetInode()
		}
		return got
	}
	pid := scheduler.Key(models.NamespacePIDKey(uint32(p.Pid)))
	dir := netlinktest.Dir(t)
	path := dir + "x"
	file := scheduler.Key(models.NamespacePathKey(path))
	if got := look(); len(got) != 0 {
		t.Errorf("found what nobody needs: %v", got)
	}
	d.Interest(pid, true)
	d.Interest(file, true)
	if got := look(); len(got) != 1 || got[pid] != p.Inode {
		t.Errorf("found %v", got)
	}

	notified := make(chan []scheduler.Key, 10)
	go d.Watch(t.Context(), func(keys ...scheduler.Key) { notified <- keys })
	n := netlinktest.Mount(t, path)
	tick <- time.Time{}
	if keys := <-notified; len(keys) != 1 || keys[0] != file {
		t.Errorf("told of %v", keys)
	}
	if got := look(file); got[file] != n.Inode {
		t.Errorf("found %v, want %d", got, n.Inode)
	}
	// The number of the process is given to another.
	started[uint32(p.Pid)] = 200
	tick <- time.Time{}
	tick <- time.Time{} // taken when the first has been handled
	select {
	case keys := <-notified:
		if len(keys) != 1 || keys[0] != pid {
			t.Errorf("told of %v", keys)
		}
	default:
		t.Error("nothing was told")
	}
	if got := look(pid); len(got) != 0 {
		t.Errorf("a stranger's namespace: %v", got)
	}
	tick <- time.Time{} // taken when the one before the look has been handled
	for len(notified) > 0 {
		<-notified // until it is looked at, every tick tells
	}
	tick <- time.Time{}
	tick <- time.Time{} // nothing new: nothing told
	if len(notified) != 0 {
		t.Errorf("told of %v", <-notified)
	}
}

// A process of a kernel in memory is known like one of a host.
func TestProcessInMemory(t *testing.T) {
	k := kerneltest.New(kerneltest.Options{})
	d := namespace.New(k, namespace.Options{})
	key := scheduler.Key(models.NamespacePIDKey(7))
	d.Interest(key, true)
	inode := func() (inode uint64) {
		for f, err := range d.Retrieve(t.Context(), scheduler.Scope[*models.NamespaceRef, struct{}]{Keys: []scheduler.Key{key}}) {
			if err != nil {
				t.Error(err)
			}
			inode = f.Value.GetInode()
		}
		return inode
	}
	if got := inode(); got != 0 {
		t.Errorf("before it starts there is %d", got)
	}
	ns := k.Start(7)
	if got := inode(); got != uint64(ns) {
		t.Errorf("found %d, want %d", got, ns)
	}
	k.End(7)
	k.Start(7)
	if got := inode(); got != 0 {
		t.Errorf("another process of its number is taken for it: %d", got)
	}
}

package cni_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/plugins/cni"
	"github.com/plumb-net/plumb/plugins/cni/spec"
	"github.com/plumb-net/plumb/plugins/ledger"
)

func openStore(t *testing.T, dir string) (*cni.Store, *ledger.Ledger) {
	t.Helper()
	l, found, err := ledger.Open(dir, ledger.Witness{}, nil)
	if err != nil || found.Damage != "" {
		t.Fatal(err, found.Damage)
	}
	t.Cleanup(func() { l.Close() })
	s, unread := cni.OpenStore(l)
	if len(unread) > 0 {
		t.Fatal(unread)
	}
	return s, l
}

func show(s *cni.Store) string {
	var lines []string
	for _, a := range s.Of("") {
		lines = append(lines, fmt.Sprintf("%s %s %s %d %v", a.Key, a.Phase, a.Netns, a.Inode, a.Result != nil))
	}
	return strings.Join(lines, "\n")
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestWrittenAhead: an attachment is on disk before it is made, and through all
// its phases it outlives the agent.
func TestWrittenAhead(t *testing.T) {
	dir := t.TempDir()
	key := cni.Key{Network: "blue", ContainerID: "c1", IfName: "eth0"}
	for _, step := range []struct {
		do   func(s *cni.Store) error
		want string
	}{
		{func(s *cni.Store) error { return s.Begin(cni.Attachment{Key: key, Netns: "/run/netns/7", Inode: 7}) }, "blue/c1/eth0 adding /run/netns/7 7 false"},
		{func(s *cni.Store) error { return s.Commit(key, spec.Result{}) }, "blue/c1/eth0 added /run/netns/7 7 true"},
		{func(s *cni.Store) error { return s.Remove(key) }, "blue/c1/eth0 removing /run/netns/7 7 true"},
		{func(s *cni.Store) error { s.Forget(key); return nil }, ""},
	} {
		s, l := openStore(t, dir)
		must(t, step.do(s))
		if got := show(s); got != step.want {
			t.Errorf("got %q, want %q", got, step.want)
		}
		must(t, l.Close())
		s, l = openStore(t, dir)
		if got := show(s); got != step.want {
			t.Errorf("after a restart %q, want %q", got, step.want)
		}
		must(t, l.Close())
	}
}

// TestSecondAdd: the same attachment again is refused, and the first is as it was.
func TestSecondAdd(t *testing.T) {
	s, _ := openStore(t, t.TempDir())
	key := cni.Key{Network: "blue", ContainerID: "c1", IfName: "eth0"}
	must(t, s.Begin(cni.Attachment{Key: key, Inode: 7}))
	must(t, s.Commit(key, spec.Result{}))
	before := show(s)
	if err := s.Begin(cni.Attachment{Key: key, Inode: 8}); !errors.Is(err, cni.ErrAttached) {
		t.Error(err)
	}
	if got := show(s); got != before {
		t.Errorf("got %s, want %s", got, before)
	}
	if err := s.Commit(cni.Key{Network: "blue", ContainerID: "c2", IfName: "eth0"}, spec.Result{}); !errors.Is(err, cni.ErrNotAttached) {
		t.Error(err)
	}
}

// TestStaleDEL: a container of the same pod that came later has another id, and
// so has another attachment; also after a restart. The networks are apart.
func TestStaleDEL(t *testing.T) {
	dir := t.TempDir()
	s, l := openStore(t, dir)
	old, now := cni.Key{Network: "blue", ContainerID: "c1", IfName: "eth0"}, cni.Key{Network: "blue", ContainerID: "c2", IfName: "eth0"}
	red := cni.Key{Network: "red", ContainerID: "c1", IfName: "eth0"}
	for _, k := range []cni.Key{old, now, red} {
		must(t, s.Begin(cni.Attachment{Key: k}))
		must(t, s.Commit(k, spec.Result{}))
	}
	must(t, l.Close())
	s, _ = openStore(t, dir)
	s.Forget(old)
	s.Forget(old)
	if err := s.Remove(old); !errors.Is(err, cni.ErrNotAttached) {
		t.Error(err)
	}
	if got := show(s); got != "blue/c2/eth0 added  0 true\nred/c1/eth0 added  0 true" {
		t.Errorf("left\n%s", got)
	}
	if got := s.Of("red"); len(got) != 1 || got[0].Key != red {
		t.Errorf("of red: %v", got)
	}
}

// TestRecordsOfOthers: a record of a later release, or one that makes no sense,
// is told, kept and harms no other.
func TestRecordsOfOthers(t *testing.T) {
	l := &kernel.MemLedger{}
	for id, value := range map[string]string{
		"attachment/blue/c1/eth0": `{"version":2,"key":{}}`,
		"attachment/blue/c2/eth0": `{"version":1,"key":{"Network":"blue","ContainerID":"c9","IfName":"eth0"}}`,
		"attachment/blue/c3/eth0": `{"version":1,"key":{"Network":"blue","ContainerID":"c3","IfName":"eth0"},"phase":"added"}`,
		"attachment/blue/c4/eth0": `7`,
	} {
		must(t, l.Add(kernel.Entry{ID: id, Value: json.RawMessage(value)}))
	}
	s, unread := cni.OpenStore(l)
	if len(unread) != 3 || !strings.Contains(fmt.Sprint(unread), "it is of version 2; this release knows 1") {
		t.Errorf("unread: %v", unread)
	}
	if got := show(s); got != "blue/c3/eth0 added  0 false" {
		t.Errorf("read %s", got)
	}
	if n := len(l.Entries("")); n != 4 {
		t.Errorf("%d records are left", n)
	}
}

// TestDiskFails: what cannot be recorded has not happened.
func TestDiskFails(t *testing.T) {
	l := &fullDisk{}
	s, _ := cni.OpenStore(l)
	key := cni.Key{Network: "blue", ContainerID: "c1", IfName: "eth0"}
	must(t, s.Begin(cni.Attachment{Key: key}))
	l.full = true
	if err := s.Commit(key, spec.Result{}); err == nil || !strings.Contains(err.Error(), "record the attachment blue/c1/eth0") {
		t.Error(err)
	}
	if a, _ := s.Get(key); a.Phase != cni.Adding || a.Result != nil {
		t.Errorf("it is %v", a)
	}
	if err := s.Begin(cni.Attachment{Key: cni.Key{Network: "blue"}}); err == nil || len(s.Of("")) != 1 {
		t.Error(err, s.Of(""))
	}
}

type fullDisk struct {
	kernel.MemLedger
	full bool
}

func (d *fullDisk) Add(entries ...kernel.Entry) error {
	if d.full {
		return errors.New("no space left on device")
	}
	return d.MemLedger.Add(entries...)
}

// TestCompare: a record whose link does not exist is removed, one whose link has other addresses
// is not used, and one that cannot be compared stays.
func TestCompare(t *testing.T) {
	store, _ := cni.OpenStore(&kernel.MemLedger{})
	zero := 0
	for inode, container := range []string{"same", "unread", "gone", "changed", "fewer"} {
		k := cni.Key{Network: "blue", ContainerID: container, IfName: "eth0"}
		must(t, store.Begin(cni.Attachment{Key: k, Netns: "/n", Inode: uint64(inode)}))
		must(t, store.Commit(k, spec.Result{Interfaces: []spec.Interface{{Name: "eth0", Sandbox: "/n"}},
			IPs: []spec.IP{{Interface: &zero, Address: "10.62.0.2/24"}, {Interface: &zero, Address: "fd62::2/64"}}}))
	}
	both := []netip.Addr{netip.MustParseAddr("fd62::2"), netip.MustParseAddr("10.62.0.2")}
	detached, changed := store.Compare(func(link string, inode uint64) ([]netip.Addr, cni.Seen) {
		if !strings.HasPrefix(link, "interface/cni:blue:") {
			t.Errorf("link %s", link)
		}
		switch inode {
		case 0:
			return both, cni.Present
		case 1:
			return nil, cni.Unknown
		case 2:
			return nil, cni.Absent
		case 3:
			return []netip.Addr{both[0], netip.MustParseAddr("10.62.0.3")}, cni.Present
		}
		return both[:1], cni.Present
	})
	if got := fmt.Sprint(detached, changed, store.Doubted(), len(store.Of(""))); got !=
		"[blue/gone/eth0] [blue/changed/eth0 blue/fewer/eth0] [blue/changed/eth0 blue/fewer/eth0] 2" {
		t.Error(got)
	}
}

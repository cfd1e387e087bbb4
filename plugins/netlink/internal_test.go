package netlink

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
	"github.com/plumb-net/plumb/plugins/pidfd"
)

func newTestKernel(t *testing.T) *Kernel {
	t.Helper()
	k, err := New(Options{OwnPath: netlinktest.New(t).Path, NamedDir: netlinktest.Dir(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { k.Close() })
	return k
}

// What is needed on kernels older than ours: a child is born under another name
// when the name is taken where its parent lives.
func TestBirthUnderAnotherName(t *testing.T) {
	k := newTestKernel(t)
	other := netlinktest.New(t)
	ns, err := k.Open(other.Path)
	if err != nil {
		t.Fatal(err)
	}
	parent, err := k.AddLink(k.Own(), kernel.LinkSpec{Name: "eth0", Veth: &kernel.VethSpec{PeerName: "p"}})
	if err != nil {
		t.Fatal(err)
	}
	n, err := k.enter(ns)
	if err != nil {
		t.Fatal(err)
	}
	defer n.leave()
	b := &birth{k: k, n: n, name: "eth0", spec: kernel.LinkSpec{Name: "eth0", Up: true,
		Macvlan: &kernel.MacvlanSpec{ParentNS: k.Own(), Parent: parent.Index, Mode: "bridge"}}}
	defer b.end()
	taken := errors.New("taken")
	l, err := b.underAnotherName(taken)
	if err != nil || l.Name != "eth0" {
		t.Fatalf("%+v, %v", l, err)
	}
	if shown := other.Show(t, "eth0"); shown == nil || len(other.Names(t)) != 1 {
		t.Errorf("ip shows %v", other.Names(t))
	}
	if _, err := b.underAnotherName(taken); !errors.Is(err, taken) {
		t.Errorf("a name that is really taken: %v", err)
	}
}

// The file of a process counts only if the process was there before and after
// it was opened: its number may have gone to another one meanwhile.
func TestProcessThatEndedWhileItWasOpened(t *testing.T) {
	netlinktest.Root(t)
	dead := exec.Command("true")
	if err := dead.Start(); err != nil {
		t.Fatal(err)
	}
	process, err := pidfd.Open(dead.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := dead.Wait(); err != nil {
		t.Fatal(err)
	}
	// Its number now leads to the namespace of somebody else.
	h := &holder{path: netlinktest.Start(t).Path, pid: dead.Process.Pid, process: process}
	defer h.close()
	if handle, err := h.open(); !errors.Is(err, kernel.ErrNoNamespace) {
		t.Errorf("opened %v: %v", handle, err)
	}
}

// A path that changed after it was opened is not held.
func TestPathThatChangedWhileItWasOpened(t *testing.T) {
	k := newTestKernel(t)
	handle, id, err := openFile(netlinktest.New(t).Path)
	if err != nil {
		t.Fatal(err)
	}
	h := &holder{id: id, path: netlinktest.New(t).Path}
	if err := k.hold(handle, h); !errors.Is(err, kernel.ErrNoNamespace) {
		t.Errorf("held: %v", err)
	}
	if k.Alive(id) || len(k.InUse()) != 1 {
		t.Error("the namespace is in use")
	}
}

// threadGone reports whether a thread of this process has ended.
func threadGone(tid int) bool {
	_, err := os.Stat(fmt.Sprintf("/proc/self/task/%d", tid))
	return errors.Is(err, os.ErrNotExist)
}

// Work that fails after it has left, as netns.New does where no file may be opened any
// more, leaves no thread in another namespace: the next one to run there would work
// on the wrong links.
func TestWorkThatFailsElsewhereComesHome(t *testing.T) {
	k := newTestKernel(t)
	failed := errors.New("failed")
	var tid int
	err := onThread(k.home, func() error {
		tid = unix.Gettid()
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		return failed
	})
	if !errors.Is(err, failed) {
		t.Error(err)
	}
	there, err := os.Stat(fmt.Sprintf("/proc/self/task/%d/ns/net", tid))
	if err != nil {
		if threadGone(tid) {
			return // nor is it
		}
		t.Fatal(err)
	}
	if home, err := os.Stat(selfPath); err != nil || !os.SameFile(home, there) {
		t.Error("a thread stayed in another namespace")
	}
}

// A thread that cannot go home is not used again.
func TestThreadThatCannotGoHomeEnds(t *testing.T) {
	netlinktest.Root(t)
	tid := 0
	err := onThread(netns.None(), func() error {
		tid = unix.Gettid()
		return unix.Unshare(unix.CLONE_NEWNET)
	})
	if !errors.Is(err, unix.EBADF) {
		t.Error(err)
	}
	netlinktest.Eventually(t, "the thread has ended", func() bool { return threadGone(tid) })
}

// Where no more files may be opened no namespace is made, and nothing of it stays.
func TestNoFileForANewNamespace(t *testing.T) {
	k := newTestKernel(t)
	if err := k.prepareNamedDir(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(k.opts.NamedDir, "blue")
	if err := os.WriteFile(path, nil, 0o400); err != nil {
		t.Fatal(err)
	}
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	none := before
	none.Cur = 3 // standard input, output and errors
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &none); err != nil {
		t.Fatal(err)
	}
	_, err := k.createAt(path)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(err, unix.EMFILE) {
		t.Error(err)
	}
	if inodeAt(path) != 0 || len(k.InUse()) != 1 {
		t.Error("something stayed")
	}
	home, err := os.Stat(selfPath)
	if err != nil {
		t.Fatal(err)
	}
	threads, err := filepath.Glob("/proc/self/task/*/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range threads {
		if there, err := os.Stat(path); err == nil && !os.SameFile(home, there) {
			t.Errorf("%s is elsewhere", path)
		}
	}
}

// The kernel says when a dump may be inconsistent.
func TestInterruptedDumpIsSeen(t *testing.T) {
	k := newTestKernel(t)
	for i := range 60 { // more than one datagram
		if _, err := k.AddLink(k.Own(), kernel.LinkSpec{Name: fmt.Sprintf("a%d", i), Veth: &kernel.VethSpec{PeerName: fmt.Sprintf("b%d", i)}}); err != nil {
			t.Fatal(err)
		}
	}
	n, err := k.enter(k.Own())
	if err != nil {
		t.Fatal(err)
	}
	defer n.leave()
	m := newMessage(unix.RTM_GETLINK, unix.NLM_F_DUMP)
	m.link(unix.AF_UNSPEC, 0, 0, 0)
	changed := false
	err = n.do(m, func(uint16, []byte) {
		if changed {
			return
		}
		changed = true
		if _, err := k.AddLink(k.Own(), kernel.LinkSpec{Name: "new", Bridge: &kernel.BridgeSpec{}}); err != nil {
			t.Error(err)
		}
	})
	if !errors.Is(err, errInterrupted) {
		t.Errorf("the dump ended with %v", err)
	}
}

// Whatever arrives, nothing is read beyond its end.
func FuzzParse(f *testing.F) {
	k := newFuzzKernel(f)
	n, err := k.enter(k.Own())
	if err != nil {
		f.Fatal(err)
	}
	for _, m := range []*message{
		newMessage(unix.RTM_GETLINK, unix.NLM_F_DUMP), newMessage(unix.RTM_GETADDR, unix.NLM_F_DUMP), newMessage(unix.RTM_GETROUTE, unix.NLM_F_DUMP),
		newMessage(unix.RTM_GETNEIGH, unix.NLM_F_DUMP), newMessage(unix.RTM_GETRULE, unix.NLM_F_DUMP),
		newMessage(unix.RTM_GETNEXTHOP, unix.NLM_F_DUMP),
	} {
		m.b = append(m.b, make([]byte, 16)...)
		_ = n.do(m, func(typ uint16, body []byte) { f.Add(typ, body) })
	}
	n.leave()
	f.Add(uint16(unix.RTM_NEWROUTE), []byte{2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 12, 0, 9, 0, 8, 0, 0, 0, 1, 0, 0, 0})
	f.Add(uint16(unix.RTM_NEWNEIGH), []byte{7, 0, 0, 0, 3, 0, 0, 0, 64, 0, 0, 0, 10, 0, 2, 0, 2, 0, 0, 0, 0, 1, 0, 0, 8, 0, 9, 0, 2, 0, 0, 0, 6, 0, 5, 0, 10, 0, 0, 0})
	f.Add(uint16(unix.RTM_NEWNEXTHOP), []byte{0, 0, 240, 0, 0, 0, 0, 0, 8, 0, 1, 0, 7, 0, 0, 0, 12, 0, 2, 0, 5, 0, 0, 0, 1, 0, 0, 0})
	for _, q := range []kernel.Qdisc{
		{Index: 7, Handle: 7, Kind: "tbf", Tbf: kernel.Tbf{Rate: 1 << 33, Burst: 1, Limit: 1}},
		{Index: 7, Handle: 7, Kind: "netem", Netem: kernel.Netem{Rate: 1 << 33}},
	} {
		m, err := newQdisc(0, q)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint16(unix.RTM_NEWQDISC), m.b[unix.SizeofNlMsghdr:])
	}
	f.Add(uint16(unix.RTM_NEWTFILTER), newFilter(kernel.Filter{Index: 7, To: 8}, make([]byte, markSize)).b[unix.SizeofNlMsghdr:])
	f.Add(uint16(newGeneration), []byte{0, 0, 0, 7, 8, 0, 1, 0, 0, 0, 0, 7, 8, 0, 2, 0, 0, 0, 0, 1})
	f.Fuzz(func(_ *testing.T, typ uint16, body []byte) {
		for _, typ := range []uint16{typ, unix.RTM_NEWADDR, unix.RTM_NEWROUTE, unix.RTM_NEWNEIGH, unix.RTM_NEWRULE, unix.RTM_NEWNEXTHOP, unix.RTM_NEWQDISC, unix.RTM_NEWTFILTER} {
			if typ != unix.RTM_NEWLINK && typ != unix.RTM_DELLINK {
				k.event(&namespace{}, unix.NlMsghdr{Type: typ}, body)
			}
			k.tablesEvent(&namespace{}, unix.NlMsghdr{Type: newGeneration}, body)
		}
		_, _ = parseLink(1, body)
		_, _, _ = parseFamily(body), parseFeatures(body), parseRings(body)
		for h, b := range messages(body) {
			_ = verdict(h, b)
		}
	})
}

func newFuzzKernel(f *testing.F) *Kernel {
	netlinktest.Root(f)
	k, err := New(Options{OwnPath: netlinktest.New(f).Path, NamedDir: f.TempDir()})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { k.Close() })
	return k
}

// What the kernel is asked about rings, and what it says of them: no link of software has
// any.
func TestRingsMessages(t *testing.T) {
	g := generic{family: 21}
	m := g.ofDevice(unix.ETHTOOL_MSG_RINGS_SET, unix.ETHTOOL_A_RINGS_HEADER, 7)
	addRings(m, 0, 256)
	want := []byte{0, 0, 0, 0, 21, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, // sealed when it is sent
		16, 1, 0, 0, // RINGS_SET, version 1
		12, 0, 1, 0x80, 8, 0, 1, 0, 7, 0, 0, 0, // of the device 7
		8, 0, 9, 0, 0, 1, 0, 0} // tx 256
	if !bytes.Equal(m.b, want) {
		t.Errorf("% x\nwant % x", m.b, want)
	}
	got := parseRings([]byte{8, 0, 2, 0, 0, 16, 0, 0, 8, 0, 5, 0, 0, 4, 0, 0, 8, 0, 6, 0, 0, 1, 0, 0, 8, 0, 9, 0, 128, 0, 0, 0})
	if (got != kernel.Rings{RX: 256, TX: 128, MaxRX: 4096, MaxTX: 1024}) {
		t.Errorf("%+v", got)
	}
}

// A namespace where more happens than who watches can take loses its own events alone, and
// nothing of it is told after the loss until that was heard.
func TestWatchersLoseByNamespace(t *testing.T) {
	w := newWatcher(2 * eventSize)
	taken := func() string {
		events, _, _ := w.take(nil)
		var said []string
		for _, ev := range events {
			said = append(said, fmt.Sprintf("%d lost=%v port=%d", ev.NS, ev.Lost, ev.Port))
		}
		return strings.Join(said, ", ")
	}
	for i := range 9 {
		w.push(kernel.Event{NS: 1, Port: i})
	}
	w.push(kernel.Event{NS: 2, Port: 100})
	w.push(kernel.Event{NS: 2, Lost: true})
	w.push(kernel.Event{NS: 2, Port: 101})
	if got, want := taken(), "1 lost=false port=0, 1 lost=false port=1, 1 lost=true port=0, 2 lost=false port=100, 2 lost=true port=0"; got != want {
		t.Errorf("told %s\nwant %s", got, want)
	}
	w.push(kernel.Event{NS: 1, Port: 10})
	if got, want := taken(), "1 lost=false port=10"; got != want {
		t.Errorf("told %s\nwant %s", got, want)
	}
}

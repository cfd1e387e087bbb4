package iface_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
	"github.com/plumb-net/plumb/scheduler"
)

// news collects what the watch reports.
type news struct {
	mu    sync.Mutex
	keys  []scheduler.Key
	all   int
	woken chan struct{}
}

func (n *news) notify(keys ...scheduler.Key) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.keys = append(n.keys, keys...)
	if len(keys) == 0 {
		n.all++
	}
	select {
	case n.woken <- struct{}{}:
	default:
	}
}

func (n *news) take() (keys []scheduler.Key) {
	n.mu.Lock()
	defer n.mu.Unlock()
	keys, n.keys = n.keys, nil
	slices.Sort(keys)
	return slices.Compact(keys)
}

// follow starts the watch of a bench and waits until nothing can be missed.
func (b *bench) follow() *news {
	b.t.Helper()
	n := &news{woken: make(chan struct{}, 1)}
	b.look() // so that the watch reports when it is ready
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- b.kind.Watch(ctx, n.notify) }()
	b.t.Cleanup(func() { cancel(); <-done })
	n.wait(b.t, func() bool { return n.all > 0 })
	return n
}

// wait waits until the condition, called under the lock, holds.
func (n *news) wait(t *testing.T, ok func() bool) {
	t.Helper()
	deadline := time.After(2 * time.Minute)
	for {
		n.mu.Lock()
		held := ok()
		n.mu.Unlock()
		if held {
			return
		}
		select {
		case <-n.woken:
		case <-deadline:
			t.Fatalf("waited in vain; reported so far: %v", n.keys)
		}
	}
}

// reports waits for news of the key.
func (n *news) reports(t *testing.T, k scheduler.Key) {
	t.Helper()
	n.wait(t, func() bool { return slices.Contains(n.keys, k) })
	n.take()
}

// drain waits until all events that the kernel has sent are handled: a link of
// ours that changes last is reported last.
func (b *bench) drain(n *news) []scheduler.Key {
	b.t.Helper()
	b.own.IP(b.t, "link set fence down")
	n.wait(b.t, func() bool { return slices.Contains(n.keys, "interface/fence") })
	keys := slices.DeleteFunc(n.take(), func(k scheduler.Key) bool { return k == "interface/fence" })
	if err := b.update("fence", `{"bridge":{}}`); err != nil {
		b.t.Fatal(err)
	}
	return keys
}

func TestWatchIgnoresOurOwnEcho(t *testing.T) {
	b := newBench(t, "blue")
	b.make("fence", `{"bridge":{}}`)
	n := b.follow()
	b.make("br0", `{"bridge":{}}`)
	b.make("t", `{"tap":{},"master":"br0","mtu":1400}`)
	b.make("lo1", `{"loopback":{}}`)
	if err := b.update("t", `{"tap":{},"host_name":"renamed","enabled":false}`); err != nil {
		t.Fatal(err)
	}
	if err := b.update("br0", `{"bridge":{"stp":true},"mtu":1300}`); err != nil {
		t.Fatal(err)
	}
	if keys := b.drain(n); len(keys) != 0 {
		t.Errorf("our own doing is news: %v", keys)
	}
	for _, name := range []string{"t", "br0", "lo1"} {
		if err := b.delete(name); err != nil {
			t.Fatal(err)
		}
	}
	if keys := b.drain(n); len(keys) != 0 {
		t.Errorf("our own deletions are news: %v", keys)
	}
}

func TestWatchReportsWhatOthersDo(t *testing.T) {
	b := newBench(t)
	b.make("fence", `{"bridge":{}}`)
	b.make("br0", `{"bridge":{}}`)
	b.make("t", `{"tap":{},"master":"br0"}`)
	n := b.follow()
	for _, cmd := range []string{
		"link set dev t nomaster", "link set dev t down", "link set dev br0 type bridge stp_state 1", "rename",
	} {
		if cmd == "rename" {
			b.own.Rename(t, "t", "other")
		} else {
			b.own.IP(t, cmd)
		}
		want := scheduler.Key("interface/t")
		if cmd == "link set dev br0 type bridge stp_state 1" {
			want = "interface/br0"
		}
		n.reports(t, want)
		b.drain(n) // one change can be told by several events
		name := string(want[len("interface/"):])
		v, _ := b.self.Wanted(want)
		_, ref, _ := b.self.Get(want)
		if _, err := b.kind.Update(context.Background(), want, v, v, ref); err != nil {
			t.Fatal(err)
		}
		b.same(name)
	}
	// What nobody asked for is no news: a group, a queue length, a link of others.
	b.own.IP(t, "link set dev t txqueuelen 77")
	b.own.IP(t, "link add theirs type bridge")
	b.own.IP(t, "link set theirs up")
	if keys := b.drain(n); len(keys) != 0 {
		t.Errorf("news: %v", keys)
	}
	b.own.IP(t, "link del dev t")
	n.reports(t, "interface/t")
}

// Who deletes a link is known if he wanted an echo; otherwise newer kernels do not say.
// TestWatchReportsLostFlood: others remove the forwarding entry to the remote of a vxlan. Another
// entry of theirs is no news.
func TestWatchReportsLostFlood(t *testing.T) {
	b := newBench(t)
	b.make("fence", `{"bridge":{}}`)
	b.make("vx", `{"vxlan":{"vni":7,"remote":"192.0.2.2"}}`)
	n := b.follow()
	b.own.Run(t, "bridge", "fdb", "append", "00:00:00:00:00:00", "dev", "vx", "dst", "192.0.2.3")
	b.own.Run(t, "bridge", "fdb", "del", "00:00:00:00:00:00", "dev", "vx", "dst", "192.0.2.3")
	if keys := b.drain(n); len(keys) != 0 {
		t.Errorf("what others made and removed is news: %v", keys)
	}
	b.own.Run(t, "bridge", "fdb", "del", "00:00:00:00:00:00", "dev", "vx", "dst", "192.0.2.2")
	n.reports(t, "interface/vx")
}

func TestWatchKnowsWhoDeletesALink(t *testing.T) {
	b := newBench(t)
	b.make("br0", `{"bridge":{}}`)
	b.make("br1", `{"bridge":{}}`)
	n := b.follow()
	b.own.IP(t, "link del dev br0")
	n.reports(t, "interface/br0")
	newer := netlinktest.Linux(t, 6, 2) // the kernel of Debian 12, a 6.1, tells of each
	if by := b.kind.ChangedBy("interface/br0"); newer && by != "" {
		t.Errorf("changed by %q", by)
	}
	ip := b.own.Actor(t, "-echo")
	ip.Tell("link del dev br1")
	netlinktest.Eventually(t, "who it was is known", func() bool { return b.kind.ChangedBy("interface/br1") == ip.Name() })
}

// A link that is deleted before the scheduler hears of its creation is news.
func TestWatchReportsTheEarlyDeath(t *testing.T) {
	b := newBench(t)
	n := b.follow()
	k, v := b.want("br0", `{"bridge":{}}`)
	if _, err := b.kind.Create(context.Background(), k, v); err != nil {
		t.Fatal(err)
	}
	b.own.IP(t, "link del dev br0") // the stand-in believes nothing of it yet
	n.reports(t, k)
}

// What somebody else does while an operation of ours is at the link is news
// when the operation ends.
func TestWatchReportsWhatCameDuringAnOperation(t *testing.T) {
	b := newBench(t)
	n := b.follow()
	b.fail.do = map[string]func(){"interface/marked": func() {
		b.own.IP(t, "link set dev br0 down")
		// The event of another link tells that the one before was handled.
		b.own.IP(t, "link add x type bridge")
		b.own.IP(t, "link set x alias plumb:host7:interface/fence")
		b.own.IP(t, "link set x up")
		n.wait(t, func() bool { return slices.Contains(n.keys, "interface/fence") })
	}}
	b.make("br0", `{"bridge":{}}`)
	n.reports(t, "interface/br0")
}

// A link with our mark that we do not know is news of its key.
func TestWatchReportsAMarkedStranger(t *testing.T) {
	b := newBench(t)
	n := b.follow()
	b.own.IP(t, "link add x type bridge")
	b.own.IP(t, "link set x alias plumb:host7:interface/gone")
	b.own.IP(t, "link set x up") // the kernel is silent about links that are down
	n.reports(t, "interface/gone")
}

func TestWatchReportsTheEndOfANamespace(t *testing.T) {
	b := newBench(t)
	p := netlinktest.Start(t)
	b.nets["proc"] = &p.Namespace
	b.want("b", `{"namespace":{"netns":"proc"},"veth":{"peer":"a"}}`)
	b.make("a", `{"veth":{"peer":"b"}}`)
	k, v := b.want("b", `{"namespace":{"netns":"proc"},"veth":{"peer":"a"}}`)
	if _, err := b.create(k, v); err != nil {
		t.Fatal(err)
	}
	b.make("br", `{"namespace":{"netns":"proc"},"bridge":{}}`)
	n := b.follow()
	p.Kill()
	for _, want := range []scheduler.Key{"interface/a", "interface/b", "interface/br"} {
		n.wait(t, func() bool { return slices.Contains(n.keys, want) })
	}
	delete(b.nets, "proc")
	if got := b.look("a", "b", "br"); len(got) != 0 {
		t.Errorf("found %v", got)
	}
	for _, name := range []string{"a", "b", "br"} {
		if err := b.delete(name); err != nil {
			t.Errorf("delete in a dead namespace: %v", err)
		}
	}
}

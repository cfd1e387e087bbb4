package netlink_test

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/plugins/netlink"
	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
)

// watching collects the events of a Watch.
type watching struct {
	mu     sync.Mutex
	events []kernel.Event
	came   chan struct{} // closed and made anew with every event
}

// watch starts a Watch that is in place when it returns and ends with the test.
func watch(t testing.TB, b *bench) *watching {
	t.Helper()
	w := &watching{came: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	ready := make(chan struct{})
	go func() {
		ended <- b.Watch(ctx, func(ev kernel.Event) {
			if ev.Ready {
				close(ready)
				return
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			w.events = append(w.events, ev)
			close(w.came)
			w.came = make(chan struct{})
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("watch ended with %v", err)
		}
	})
	<-ready
	return w
}

// until waits for an event and returns it.
func (w *watching) until(t testing.TB, what string, is func(kernel.Event) bool) kernel.Event {
	t.Helper()
	deadline := time.After(netlinktest.Patience)
	for seen := 0; ; {
		w.mu.Lock()
		events, came := w.events, w.came
		w.mu.Unlock()
		for ; seen < len(events); seen++ {
			if is(events[seen]) {
				return events[seen]
			}
		}
		select {
		case <-came:
		case <-deadline:
			t.Fatalf("no event for: %s", what)
		}
	}
}

// list is what has come so far.
func (w *watching) list() []kernel.Event {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.events)
}

// What others do is told in the order in which they did it.
func TestEventsInOrder(t *testing.T) {
	b := newKernel(t, netlink.Options{})
	w := watch(t, b)
	ns, n := b.open(t) // after the watch began
	n.IP(t, "link add a0 type veth peer name a1")
	n.IP(t, "link set a1 up")
	n.IP(t, "link set a0 up")
	n.IP(t, "addr add 10.0.0.1/24 dev a0")
	n.IP(t, "route add 10.9.0.0/16 via 10.0.0.2 proto 99")
	n.IP(t, "route del 10.9.0.0/16")
	n.IP(t, "addr del 10.0.0.1/24 dev a0")
	n.IP(t, "link set a0 down") // kernels before 6.2 want that
	n.IP(t, "link set a0 name b0")
	n.IP(t, "link del b0")
	w.until(t, "the end", func(ev kernel.Event) bool { return ev.Deleted && ev.Link != nil && ev.Link.Name == "b0" })

	var story []string
	say := func(s string, deleted bool) {
		if deleted {
			s = "no " + s
		}
		if len(story) == 0 || story[len(story)-1] != s {
			story = append(story, s)
		}
	}
	for _, ev := range w.list() {
		if ev.NS != ns {
			t.Errorf("event of another namespace: %+v", ev)
		}
		switch {
		case ev.Link != nil && (ev.Link.Name == "a0" || ev.Link.Name == "b0"):
			say(fmt.Sprintf("%s up=%v", ev.Link.Name, ev.Link.Up), ev.Deleted)
		case ev.Address != nil && ev.Address.Prefix.Addr().Is4():
			say(ev.Address.Prefix.String(), ev.Deleted)
		case ev.Route != nil && ev.Route.Protocol == 99:
			say(ev.Route.Dst.String(), ev.Deleted)
		}
	}
	want := []string{
		"a0 up=false", "a0 up=true", "10.0.0.1/24", "10.9.0.0/16", "no 10.9.0.0/16", "no 10.0.0.1/24",
		"a0 up=false", "b0 up=false", "no b0 up=false",
	}
	if !slices.Equal(story, want) {
		t.Errorf("told  %q\nwanted %q", story, want)
	}
}

// A port that leaves its bridge is not a link that is gone.
func TestLeavingABridgeIsNoDeletion(t *testing.T) {
	b := newKernel(t, netlink.Options{})
	w := watch(t, b)
	b.own.IP(t, "link add br0 type bridge")
	b.own.IP(t, "link add a0 type veth peer name a1")
	b.own.IP(t, "link set a0 master br0")
	w.until(t, "a0 is a port", func(ev kernel.Event) bool { return ev.Link != nil && ev.Link.Name == "a0" && ev.Link.Master != 0 })
	b.own.IP(t, "link set a0 nomaster")
	w.until(t, "a0 is none", func(ev kernel.Event) bool { return ev.Link != nil && ev.Link.Name == "a0" && ev.Link.Master == 0 })
	b.own.IP(t, "link set a0 up")
	b.own.IP(t, "link set a0 alias end")
	w.until(t, "the end", func(ev kernel.Event) bool { return ev.Link != nil && ev.Link.Alias == "end" })
	for _, ev := range w.list() {
		if ev.Deleted && ev.Link != nil {
			t.Errorf("told %+v", *ev.Link)
		}
	}
}

// A reader that is too slow is told so, once it reads again, and goes on.
func TestLostEvents(t *testing.T) {
	b := newKernel(t, netlink.Options{ReceiveBuffer: 4096})
	l := b.add(t, b.Own(), kernel.LinkSpec{Name: "br0", Up: true, Bridge: &kernel.BridgeSpec{}})
	w := watch(t, b)
	w.mu.Lock() // holds up the reader
	for i := range 200 {
		if err := b.SetLink(b.Own(), l.Index, kernel.LinkPatch{Alias: ref(fmt.Sprint(i))}); err != nil {
			t.Error(err)
		}
	}
	w.mu.Unlock()
	lost := w.until(t, "events were lost", func(ev kernel.Event) bool { return ev.Lost })
	if lost != (kernel.Event{NS: b.Own(), Lost: true}) {
		t.Errorf("told %+v", lost)
	}
	netlinktest.Eventually(t, "new events come again", func() bool {
		before := len(w.list())
		if err := b.SetLink(b.Own(), l.Index, kernel.LinkPatch{Alias: ref("after")}); err != nil {
			t.Fatal(err)
		}
		events := w.list()[before:]
		return slices.ContainsFunc(events, func(ev kernel.Event) bool { return ev.Link != nil && ev.Link.Alias == "after" })
	})
}

// The default buffer holds what thousands of changes leave while nobody reads.
func TestNothingIsLostByDefault(t *testing.T) {
	b := newKernel(t, netlink.Options{})
	w := watch(t, b)
	l := b.add(t, b.Own(), kernel.LinkSpec{Name: "br0", Up: true, Bridge: &kernel.BridgeSpec{}})
	const n = 3000
	w.mu.Lock()
	for i := range n {
		a := kernel.Address{Index: l.Index, Prefix: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 32)}
		if err := b.AddAddress(b.Own(), a); err != nil {
			t.Error(err)
		}
	}
	w.mu.Unlock()
	next := 0
	w.until(t, "the last address", func(ev kernel.Event) bool {
		if ev.Lost {
			t.Error("lost")
		}
		if ev.Address == nil || !ev.Address.Prefix.Addr().Is4() {
			return false
		}
		if a := ev.Address.Prefix.Addr().As4(); int(a[2])<<8|int(a[3]) != next {
			t.Fatalf("address %d is %v", next, a)
		}
		next++
		return next == n
	})
}

// Several can watch, each for itself, and ending one does not end another.
func TestTwoWatches(t *testing.T) {
	b := newKernel(t, netlink.Options{})
	first := watch(t, b)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	ready := make(chan struct{})
	go func() {
		ended <- b.Watch(ctx, func(ev kernel.Event) {
			if ev.Ready {
				close(ready)
			}
		})
	}()
	<-ready
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	b.own.IP(t, "link add br0 type bridge")
	first.until(t, "br0", func(ev kernel.Event) bool { return ev.Link != nil && ev.Link.Name == "br0" })
}

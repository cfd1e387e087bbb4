package address_test

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
	"github.com/plumb-net/plumb/scheduler"
)

// watch is a watch of the kind, with what it has told.
type watch struct {
	t     *testing.T
	mu    sync.Mutex
	ready bool
	keys  []scheduler.Key
}

// newWatch begins to watch what was read before; it ends with the test.
func newWatch(t *testing.T, b *bench) *watch {
	t.Helper()
	b.look()
	w := &watch{t: t}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- b.kind.Watch(ctx, func(k ...scheduler.Key) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.ready = w.ready || len(k) == 0
			w.keys = append(w.keys, k...)
		})
	}()
	t.Cleanup(func() { cancel(); <-done })
	w.eventually("ready", func() bool { return w.ready })
	return w
}

func (w *watch) eventually(what string, holds func() bool) {
	w.t.Helper()
	netlinktest.Eventually(w.t, what, func() bool { w.mu.Lock(); defer w.mu.Unlock(); return holds() })
}

// await waits until it has told a key.
func (w *watch) await(k scheduler.Key) {
	w.t.Helper()
	w.eventually(string(k), func() bool { return slices.Contains(w.keys, k) })
}

// seen are the keys that it has told.
func (w *watch) seen() []scheduler.Key {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.keys)
}

func TestWatch(t *testing.T) {
	b := newBench(t)
	b.link("web", `{"bridge":{},"addresses_exclusive":true}`)
	b.link("eth9", `{"existing":{}}`)
	w := newWatch(t, b)
	reported := w.await

	b.derived("web", "10.0.0.1/24", "10.0.0.2/24", "fd00::1/64")
	b.derived("eth9", "10.0.1.1/24")
	// An event that comes after the thing was forgotten and before it goes is news.
	b.net.IP(t, "addr add 10.0.3.9/24 dev eth9")
	reported("address/eth9/10.0.3.9/24")
	b.delete("address/web/10.0.0.1/24", "address/eth9/10.0.1.1/24")
	b.net.IP(t, "addr add 10.0.0.9/24 dev web")
	reported("address/web/10.0.0.9/24")
	// The second is dropped with its primary and put back: that may be news.
	keys := slices.DeleteFunc(w.seen(), func(k scheduler.Key) bool { return k == "address/web/10.0.0.2/24" })
	if len(keys) != 2 {
		t.Errorf("our own doing is news: %v", keys)
	}
	// Who did it is known, once.
	b.derived("web", "10.0.0.3/24")
	ip := b.net.Actor(t)
	ip.Do(t, "addr del 10.0.0.3/24 dev web")
	reported("address/web/10.0.0.3/24")
	if by, again := b.kind.ChangedBy("address/web/10.0.0.3/24"), b.kind.ChangedBy("address/web/10.0.0.3/24"); by != ip.Name() || again != "" {
		t.Errorf("changed by %q, then %q", by, again)
	}
	// Of IPv6 the kernel does not say.
	b.net.IP(t, "addr del fd00::1/64 dev web")
	reported("address/web/fd00::1/64")
	if by := b.kind.ChangedBy("address/web/fd00::1/64"); by != "" {
		t.Errorf("changed by %q", by)
	}
	b.net.IP(t, "addr add 10.0.2.1/24 dev eth9") // foreign, but others may need it
	reported("address/eth9/10.0.2.1/24")
}

package address_test

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
	"github.com/plumb-net/plumb/scheduler"
)

func TestWatch(t *testing.T) {
	b := newBench(t)
	b.link("web", `{"bridge":{}}`)
	b.link("eth9", `{"existing":{}}`)
	b.look()
	var mu sync.Mutex
	var keys []scheduler.Key
	ready := false
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- b.kind.Watch(ctx, func(k ...scheduler.Key) {
			mu.Lock()
			defer mu.Unlock()
			ready = ready || len(k) == 0
			keys = append(keys, k...)
		})
	}()
	defer func() { cancel(); <-done }()
	seen := func(what string, holds func() bool) {
		t.Helper()
		netlinktest.Eventually(t, what, func() bool { mu.Lock(); defer mu.Unlock(); return holds() })
	}
	reported := func(k scheduler.Key) {
		t.Helper()
		seen(string(k), func() bool { return slices.Contains(keys, k) })
	}
	seen("ready", func() bool { return ready })

	b.derived("web", "10.0.0.1/24", "10.0.0.2/24", "fd00::1/64")
	b.derived("eth9", "10.0.1.1/24")
	// An event that comes after the thing was forgotten and before it goes is news.
	b.net.IP(t, "addr add 10.0.3.9/24 dev eth9")
	reported("address/eth9/10.0.3.9/24")
	b.delete("address/web/10.0.0.1/24", "address/eth9/10.0.1.1/24")
	b.net.IP(t, "addr add 10.0.0.9/24 dev web")
	reported("address/web/10.0.0.9/24")
	mu.Lock()
	// The second is dropped with its primary and put back: that may be news.
	keys = slices.DeleteFunc(keys, func(k scheduler.Key) bool { return k == "address/web/10.0.0.2/24" })
	if len(keys) != 2 {
		t.Errorf("our own doing is news: %v", keys)
	}
	mu.Unlock()
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

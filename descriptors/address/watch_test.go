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
	b.delete("address/web/10.0.0.1/24", "address/eth9/10.0.1.1/24")
	b.net.IP(t, "addr add 10.0.0.9/24 dev web")
	reported("address/web/10.0.0.9/24")
	mu.Lock()
	// The second is dropped with its primary and put back: that may be news.
	keys = slices.DeleteFunc(keys, func(k scheduler.Key) bool { return k == "address/web/10.0.0.2/24" })
	if len(keys) != 1 {
		t.Errorf("our own doing is news: %v", keys)
	}
	mu.Unlock()
	b.net.IP(t, "addr del fd00::1/64 dev web")
	reported("address/web/fd00::1/64")
	b.net.IP(t, "addr add 10.0.2.1/24 dev eth9") // foreign, but others may need it
	reported("address/eth9/10.0.2.1/24")
}

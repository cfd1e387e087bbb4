package route_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
	"github.com/plumb-net/plumb/scheduler"
)

// TestNexthop: several routes share a nexthop, and stay when another takes its place. With
// the nexthop the kernel drops them, which is news; they can be made again.
func TestNexthop(t *testing.T) {
	b := newBench(t)
	for name, v := range map[string]string{"one": `{"destination":"10.1.0.0/16","nexthop":"n"}`, "two": `{"destination":"10.2.0.0/16","nexthop":"n"}`,
		"other": `{"destination":"10.3.0.0/16","nexthop":"m"}`} {
		b.must(name, v)
	}
	b.same() // so that the watch says when it is ready
	ready := make(chan struct{})
	var mu sync.Mutex
	news := map[scheduler.Key]bool{}
	heard := func() int { mu.Lock(); defer mu.Unlock(); return len(news) }
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- b.kind.Watch(ctx, func(keys ...scheduler.Key) {
			if len(keys) == 0 {
				close(ready)
			}
			mu.Lock()
			defer mu.Unlock()
			for _, k := range keys {
				news[k] = true
			}
		})
	}()
	defer func() { cancel(); <-done }()
	<-ready
	b.net.IP(t, "nexthop replace id 1 via 10.0.1.8 dev b")
	b.same()
	if flat := strings.Join(strings.Fields(b.shown()), " "); strings.Count(flat, "nhid 1 via 10.0.1.8 dev b") != 2 {
		t.Errorf("ip shows %s", flat)
	}
	b.net.IP(t, "nexthop del id 1")
	netlinktest.Eventually(t, "the news", func() bool { return heard() == 2 })
	if !news["route/one"] || !news["route/two"] {
		t.Errorf("news of %v", news)
	}
	for range b.kind.Retrieve(t.Context(), scope{Keys: []scheduler.Key{"route/one"}}) {
		t.Error("a route is there without its nexthop")
	}
	if err := b.add("one", `{"destination":"10.1.0.0/16","nexthop":"n"}`); err == nil {
		t.Error("a route was made without its nexthop")
	}
	b.net.IP(t, "nexthop add id 1 via 10.0.0.9 dev a")
	b.must("one", `{"destination":"10.1.0.0/16","nexthop":"n"}`)
	b.must("two", `{"destination":"10.2.0.0/16","nexthop":"n"}`)
	b.same()

	// Another nexthop by somebody else's hand is a difference, not another route.
	b.net.IP(t, fmt.Sprintf("route replace 10.1.0.0/16 nhid 2 proto %d", kernel.Protocol(label)))
	for f, err := range b.kind.Retrieve(t.Context(), scope{Keys: []scheduler.Key{"route/one"}}) {
		if err != nil || f.Value.GetNexthop() != "?2" {
			t.Errorf("%v, %v", f.Value, err)
		}
	}
}

package bench

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"time"

	vish "github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
)

// BenchmarkOneKey puts one route after the other into etcd and waits each time
// until the kernel tells that it is there. The floor in the same run: the same
// store, a watch by the official client, and one call to the kernel, told by
// the kernel in the same way. One op is one of each.
func BenchmarkOneKey(b *testing.B) {
	h := newHost(b)
	end := h.follow("interface/br0", 1, "configured")
	h.write(put("interface/br0", `{"bridge":{},"addresses":["10.0.0.1/8"]}`))
	end()
	floorNS := netlinktest.New(b)
	floor := newPlain(b, floorNS)
	floor.bridge(2, "br0")

	ours := routes(b, h.Namespace)
	theirs := routes(b, floorNS)
	watch := h.etcd.Watch(context.Background(), "/plumb/"+label+"/floor/", clientv3.WithPrefix(), clientv3.WithCreatedNotify())
	<-watch // it is there

	var took, raw []time.Duration
	for i := range max(b.N, 1000) {
		dst := [4]byte{20, byte(i >> 8), byte(i), 0}
		value := fmt.Sprintf(`{"interface":"br0","destination":"%s/24"}`, netip.AddrFrom4(dst))

		begin, _ := h.write(put(fmt.Sprintf("route/r%d", i), value))
		took = append(took, ours.until(dst).Sub(begin))

		begin, _ = h.write(clientv3.OpPut(fmt.Sprintf("/plumb/%s/floor/r%d", label, i), value))
		<-watch
		floor.route(2, 24, dst)
		raw = append(raw, theirs.until(dst).Sub(begin))
	}
	b.ReportMetric(us(median(took)), "p50-µs")
	b.ReportMetric(us(quantile(took, 99)), "p99-µs")
	b.ReportMetric(us(median(raw)), "floor-p50-µs")
	b.ReportMetric(us(quantile(raw, 99)), "floor-p99-µs")
	b.ReportMetric(0, "ns/op")
	verdict(b, "one key, etcd put to kernel, p50 above the floor", us(median(took)-median(raw)), 1000, "µs")
}

// routeEvents are what the kernel tells of routes.
type routeEvents struct {
	b testing.TB
	c chan vish.RouteUpdate
}

func routes(b testing.TB, n *netlinktest.Namespace) *routeEvents {
	b.Helper()
	ns, err := netns.GetFromPath(n.Path)
	if err != nil {
		b.Fatal(err)
	}
	defer ns.Close()
	r := &routeEvents{b: b, c: make(chan vish.RouteUpdate, 1000)}
	done := make(chan struct{})
	b.Cleanup(func() { close(done) })
	if err := vish.RouteSubscribeAt(ns, r.c, done); err != nil {
		b.Fatal(err)
	}
	return r
}

// until waits for the route and returns when it was told of.
func (r *routeEvents) until(dst [4]byte) time.Time {
	r.b.Helper()
	late := time.After(10 * time.Second)
	for {
		select {
		case u := <-r.c:
			if u.Dst != nil && u.Dst.IP.Equal(dst[:]) {
				return time.Now()
			}
		case <-late:
			r.b.Fatalf("the kernel does not tell of a route to %v", dst)
		}
	}
}

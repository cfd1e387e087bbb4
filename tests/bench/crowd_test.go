package bench

import (
	"context"
	"fmt"
	"net/netip"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/plumb-net/plumb/plugins/api/apiv1"
	"github.com/plumb-net/plumb/plugins/api/client"
)

// BenchmarkCrowd puts one route after the other, as BenchmarkOneKey, alone and then beside
// 100 who watch all keys and 1,000 requests per second for one, all at the agent's socket.
// Those who ask run in this process, so that they take their share of the processors too.
func BenchmarkCrowd(b *testing.B) {
	const watchers, perSecond = 100, 1000
	h := newHost(b)
	end := h.follow("interface/br0", 1, "configured")
	h.write(put("interface/br0", `{"bridge":{},"addresses":["10.0.0.1/8"]}`))
	end()
	ours := routes(b, h.Namespace)
	n := 0
	changes := func() (took []time.Duration) {
		for range max(b.N, 1000) {
			dst := [4]byte{20, byte(n >> 8), byte(n), 0}
			n++
			begin, _ := h.write(put(fmt.Sprintf("route/r%d", n), fmt.Sprintf(`{"interface":"br0","destination":"%s/24"}`, netip.AddrFrom4(dst))))
			took = append(took, ours.until(dst).Sub(begin))
			time.Sleep(5 * time.Millisecond) // a change now and then
		}
		return took
	}
	alone := changes()

	ctx, stop := context.WithCancel(context.Background())
	var crowd, inSync sync.WaitGroup
	inSync.Add(watchers)
	socket := filepath.Join(h.dir, "run", "agent.sock")
	var heard, answered atomic.Int64
	for range watchers {
		c := client.New(socket)
		b.Cleanup(c.Close)
		crowd.Go(func() {
			followed := sync.OnceFunc(inSync.Done)
			defer followed()
			stream, err := c.Watch(ctx, &apiv1.WatchRequest{})
			if err != nil {
				b.Error(err)
				return
			}
			defer stream.Close()
			for stream.Receive() {
				if heard.Add(1); stream.Msg().InSync {
					followed()
				}
			}
			if ctx.Err() == nil {
				b.Error(stream.Err())
			}
		})
	}
	inSync.Wait()
	crowd.Go(func() {
		tick := time.NewTicker(time.Second / perSecond)
		defer tick.Stop()
		asked := 0
		for begin := time.Now(); ctx.Err() == nil; <-tick.C {
			for ; asked < int(time.Since(begin).Seconds()*perSecond); asked++ { // a tick may be missed
				crowd.Go(func() {
					if _, err := h.api.Get(ctx, &apiv1.GetRequest{Key: "interface/br0"}); err == nil {
						answered.Add(1)
					}
				})
			}
		}
	})
	begin := time.Now()
	beside := changes()
	rate := float64(answered.Load()) / time.Since(begin).Seconds()
	stop()
	crowd.Wait()

	b.ReportMetric(us(quantile(alone, 99)), "alone-p99-µs")
	b.ReportMetric(us(quantile(beside, 99)), "beside-p99-µs")
	b.ReportMetric(us(median(alone)), "alone-p50-µs")
	b.ReportMetric(us(median(beside)), "beside-p50-µs")
	b.ReportMetric(rate, "answers/s")
	b.ReportMetric(float64(heard.Load())/watchers, "messages/watcher")
	b.ReportMetric(0, "ns/op")
	verdict(b, "a change beside 100 watchers and 1,000 requests/s, p99", float64(quantile(beside, 99))/float64(quantile(alone, 99)), 2, "× alone")
}

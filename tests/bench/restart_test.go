package bench

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/plumb-net/plumb/plugins/api/apiv1"
	"github.com/plumb-net/plumb/plugins/etcd/embedded"
	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
)

// BenchmarkRestart starts an agent whose 50,000 routes are all there, until it knows that each
// is as it is wanted. Nothing may be written to the kernel. The floor is what any program has to
// do for that: start the store on this data, read the intent, and dump the routes once. Told
// beside it are the dump of ip(8) alone, and agentctl drift, for which an agent that knows what
// is wanted reads all that is there once, and compares it.
func BenchmarkRestart(b *testing.B) {
	const n = 50_000
	h := newHost(b)
	agentctl := h.agentctl()
	agentctl("apply", "-f", h.file(manyRoutes(n)), "--chunked", "--wait")
	var restart, floor, dump, drift []time.Duration
	for range b.N {
		drift = append(drift, agentctl("drift"))
		h.told("route/", n) // all that the last run had to write is written
		h.stop()
		d, all := h.plainRestart(n)
		dump, floor = append(dump, d), append(floor, all)
		restart = append(restart, h.restart(n))
	}
	b.ReportMetric(ms(median(restart)), "restart-ms")
	b.ReportMetric(ms(median(floor)), "floor-ms")
	b.ReportMetric(ms(median(dump)), "dump-ms")
	b.ReportMetric(ms(median(drift)), "drift-ms")
	b.ReportMetric(0, "ns/op")
	verdict(b, "a restart on 50,000 routes, to the last key known to be configured", ratio(restart, floor), 1.5, "× store and dump")
	verdict(b, "the same, against agentctl drift", ratio(restart, drift), 1.5, "× drift")
	verdict(b, "the same, against the dump alone", ratio(restart, dump), 1.5, "× dump")
}

// restart starts the agent and returns how long it took until all of so many routes
// and what they need were configured.
func (h *host) restart(routes int) time.Duration {
	h.b.Helper()
	begin := time.Now()
	h.start()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var answer *apiv1.WaitResponse
	netlinktest.Eventually(h.b, "the agent answers", func() (ok bool) {
		var err error
		answer, err = h.api.Wait(ctx, &apiv1.WaitRequest{All: true, NoValues: true})
		return err == nil
	})
	took := time.Since(begin)
	if answer.Outcome != "met" || len(answer.Keys) <= routes {
		h.b.Fatalf("%s, %d keys; there are %d routes", answer.Outcome, len(answer.Keys), routes)
	}
	_, text, err := h.api.Page(ctx, "/metrics")
	if err != nil {
		h.b.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if written, ok := strings.CutPrefix(line, "plumb_kernel_writes_total "); ok && strings.TrimSpace(written) != "0" {
			h.b.Fatalf("a restart wrote %s times to the kernel", strings.TrimSpace(written))
		}
	}
	return took
}

// plainRestart does without the agent, which must not run, what it has to do.
func (h *host) plainRestart(n int) (dump, all time.Duration) {
	h.b.Helper()
	begin := time.Now()
	socket := filepath.Join(h.dir, "run", "etcd.sock")
	store, err := embedded.Launch(context.Background(), embedded.Config{Dir: filepath.Join(h.dir, "state", "etcd"), Socket: socket})
	if err != nil {
		h.b.Fatal(err)
	}
	defer store.Close()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"unix://" + socket}, Logger: zap.NewNop()})
	if err != nil {
		h.b.Fatal(err)
	}
	defer client.Close()
	for from, read := config(""), 0; read <= n; {
		resp, err := client.Get(context.Background(), from, clientv3.WithRange(clientv3.GetPrefixRangeEnd(config(""))), clientv3.WithLimit(10_000))
		if err != nil || len(resp.Kvs) == 0 {
			h.b.Fatalf("%d keys are read: %v", read, err)
		}
		read += len(resp.Kvs)
		from = string(resp.Kvs[len(resp.Kvs)-1].Key) + "\x00"
	}
	beginDump := time.Now()
	if got := strings.Count(h.Run(h.b, "ip", "route"), "via 192.168.0.2"); got != n {
		h.b.Fatalf("the dump has %d routes", got)
	}
	return time.Since(beginDump), time.Since(begin)
}

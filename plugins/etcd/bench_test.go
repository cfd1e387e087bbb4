package etcd

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/etcd/etcdtest"
	"github.com/plumb-net/plumb/scheduler"
)

// clock notes when each revision came out at the far end.
type clock struct{ seen chan time.Time }

func (c *clock) Derived(scheduler.Key, any) ([]scheduler.Key, error) { return nil, nil }

func (c *clock) Submit(t scheduler.Txn) *scheduler.Handle {
	if !t.Complete {
		c.seen <- time.Now()
	}
	return &scheduler.Handle{}
}

// BenchmarkPutToSubmit measures from before the put to the Submit, beside the
// floor of the same run: the official client's watch on the same store.
// Run it with -benchtime=5000x.
func BenchmarkPutToSubmit(b *testing.B) {
	b.Run("embedded", func(b *testing.B) { putToSubmit(b, config(b)) })
	b.Run("external", func(b *testing.B) { putToSubmit(b, config(b, etcdtest.Start(b).URL())) })
}

func putToSubmit(b *testing.B, c Config) {
	c.tune = tuning{}
	clk := &clock{seen: make(chan time.Time, 1)}
	p, err := New(c, models.Decode, clk, newBoard().watch)
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- p.Run(ctx) }()
	defer func() { cancel(); <-done }()
	for p.Health().State != healthOK {
		time.Sleep(time.Millisecond)
	}
	ep := "unix://" + c.socket()
	if len(c.Endpoints) > 0 {
		ep = c.Endpoints[0]
	}
	value := []byte(`{"interface":"web","destination":"10.1.0.0/16","gateway":"10.0.0.1"}`)
	viaSocket := client(b, ep)
	var ours, floor, direct []time.Duration
	watch := viaSocket.Watch(ctx, "/plumb/h/floor/", clientv3.WithPrefix())
	// The floor of the embedded store without a socket between.
	var bare clientv3.WatchChan
	if len(c.Endpoints) == 0 {
		w := clientv3.NewWatchFromWatchClient(p.current().watch, clientv3.NewCtxClient(ctx))
		defer w.Close()
		bare = w.Watch(ctx, "/plumb/h/bare/", clientv3.WithPrefix())
	}
	time.Sleep(50 * time.Millisecond) // the watches are there
	b.ResetTimer()
	for range b.N {
		begin := time.Now()
		if _, err := p.Write(ctx, []models.Write{{Key: "config/route/r", Value: value}}); err != nil {
			b.Fatal(err)
		}
		ours = append(ours, (<-clk.seen).Sub(begin))
		begin = time.Now()
		if _, err := p.Write(ctx, []models.Write{{Key: "floor/r", Value: value}}); err != nil {
			b.Fatal(err)
		}
		<-watch
		floor = append(floor, time.Since(begin))
		if bare != nil {
			begin = time.Now()
			if _, err := p.Write(ctx, []models.Write{{Key: "bare/r", Value: value}}); err != nil {
				b.Fatal(err)
			}
			<-bare
			direct = append(direct, time.Since(begin))
		}
	}
	b.StopTimer()
	report(b, "ours", ours)
	report(b, "client-watch", floor)
	report(b, "direct-watch", direct)
}

func report(b *testing.B, name string, d []time.Duration) {
	if len(d) == 0 {
		return
	}
	slices.Sort(d)
	b.ReportMetric(float64(d[len(d)/2].Microseconds()), name+"-p50-us")
	b.ReportMetric(float64(d[len(d)*99/100].Microseconds()), name+"-p99-us")
}

// BenchmarkPut compares the two ways to the embedded store.
func BenchmarkPut(b *testing.B) {
	c, err := config(b).withDefaults()
	if err != nil {
		b.Fatal(err)
	}
	l, err := openEmbedded(b.Context(), c, false)
	if err != nil {
		b.Fatal(err)
	}
	defer l.close()
	for name, kv := range map[string]clientv3.KV{"direct": l.kv, "socket": client(b, "unix://"+c.socket())} {
		b.Run(name, func(b *testing.B) {
			var took []time.Duration
			for range b.N {
				begin := time.Now()
				if _, err := kv.Put(b.Context(), "k", "v"); err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(begin))
			}
			report(b, "put", took)
		})
	}
}

// BenchmarkList100k lists and decodes 100,000 keys: the first word after a
// start, beside the floor of reading them with the official client at once.
func BenchmarkList100k(b *testing.B) {
	b.Run("embedded", func(b *testing.B) {
		c, err := config(b).withDefaults()
		if err != nil {
			b.Fatal(err)
		}
		l, err := openEmbedded(b.Context(), c, false)
		if err != nil {
			b.Fatal(err)
		}
		defer l.close()
		list100k(b, c, l)
	})
	b.Run("external", func(b *testing.B) {
		c, err := config(b, etcdtest.Start(b).URL()).withDefaults()
		if err != nil {
			b.Fatal(err)
		}
		l, err := openExternal(b.Context(), c)
		if err != nil {
			b.Fatal(err)
		}
		defer l.close()
		list100k(b, c, l)
	})
}

func list100k(b *testing.B, c Config, l *link) {
	const n, per = 100_000, 100
	pad := strings.Repeat("1", 10)
	for i := 0; i < n; i += per {
		ops := make([]clientv3.Op, per)
		for j := range ops {
			k := i + j
			ops[j] = clientv3.OpPut(fmt.Sprintf("%sconfig/route/r%06d", base, k),
				fmt.Sprintf(`{"interface":"web%s","destination":"10.%d.%d.%d/32","gateway":"10.0.0.1","metric":%d}`, pad, k>>16&255, k>>8&255, k&255, k))
		}
		if _, err := l.kv.Txn(b.Context()).Then(ops...).Commit(); err != nil {
			b.Fatal(err)
		}
	}
	var read, list1, decode, changed time.Duration
	for b.Loop() {
		begin := time.Now()
		if _, err := l.kv.Get(b.Context(), base+"config/", clientv3.WithPrefix()); err != nil {
			b.Fatal(err)
		}
		read += time.Since(begin)
		begin = time.Now()
		snap, err := list(b.Context(), l, c.tune, base+"config/", base+"store")
		if err != nil || len(snap.kvs) != n {
			b.Fatal(err)
		}
		list1 += time.Since(begin)
		begin = time.Now()
		if got := Decoder(models.Decode).decodeAll(base+"config/", snap.kvs); got[0].Invalid != nil {
			b.Fatal(got[0].Invalid)
		}
		decode += time.Since(begin)
		begin = time.Now()
		s := newSource(c, nil, models.Decode, nil)
		if _, err := s.changed(b.Context(), l, snap.rev); err != nil {
			b.Fatal(err)
		}
		changed += time.Since(begin)
	}
	each := func(d time.Duration) float64 { return float64(d.Milliseconds()) / float64(b.N) }
	b.ReportMetric(each(read), "one-read-ms")
	b.ReportMetric(each(list1), "paged-list-ms")
	b.ReportMetric(each(decode), "decode-ms")
	b.ReportMetric(each(changed), "audit-ms")
}

// BenchmarkStatuses writes 10,000 statuses that all differ.
func BenchmarkStatuses(b *testing.B) {
	c := config(b)
	a := runAgent(b, c)
	a.ready()
	for round := 0; b.Loop(); round++ {
		var all []scheduler.Status
		for i := range 10_000 {
			s := stat(fmt.Sprintf("route/%05d", i), "etcd", scheduler.Configured)
			s.Attempts = round + 1
			all = append(all, s)
		}
		a.brd.set(all...)
		for {
			resp, err := a.current().kv.Get(b.Context(), base+"status/route/09999")
			if err != nil {
				b.Fatal(err)
			}
			if len(resp.Kvs) > 0 && resp.Kvs[0].Version > int64(round) {
				break
			}
			time.Sleep(time.Millisecond)
		}
	}
}

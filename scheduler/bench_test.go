package scheduler_test

import (
	"context"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/plumb-net/plumb/scheduler"
)

// The engine alone, with operations that do nothing, beside a floor: a map,
// slices and one topological pass making the same callbacks. Ratios count.
//
//	go test -run - -bench . ./scheduler

// item is a value: a number and the key it needs, if any.
type item struct {
	n    int
	need scheduler.Key
}

func key(i int) scheduler.Key { return scheduler.Key(fmt.Sprintf("v/%07d", i)) }

func flat(n int) []scheduler.Change {
	return items(n, func(int) scheduler.Key { return "" })
}

// tree is 10-ary; children sort before their parents, so everything pends first.
func tree(n int) []scheduler.Change {
	return items(n, func(i int) scheduler.Key {
		if i == n-1 {
			return ""
		}
		return key(n - 1 - (n-2-i)/10)
	})
}

func chain(n int) []scheduler.Change {
	return items(n, func(i int) scheduler.Key {
		if i == 0 {
			return ""
		}
		return key(i - 1)
	})
}

func hub(n int) []scheduler.Change { return items(n, func(int) scheduler.Key { return "hub/0" }) }

func items(n int, need func(i int) scheduler.Key) []scheduler.Change {
	out := make([]scheduler.Change, n)
	for i := range out {
		out[i] = scheduler.Set(key(i), item{i, need(i)})
	}
	return out
}

// bench is a scheduler that runs, with kinds v (Retrieve from its own map) and hub.
type bench struct {
	*scheduler.Scheduler
	stop  func()
	calls atomic.Int64
	hang  atomic.Pointer[chan struct{}]
}

func newBench(b testing.TB, retrieve func() []scheduler.Found[item, struct{}]) *bench {
	return newBenchWith(b, scheduler.Options{}, retrieve)
}

func newBenchWith(b testing.TB, o scheduler.Options, retrieve func() []scheduler.Found[item, struct{}]) *bench {
	x := &bench{Scheduler: scheduler.New(o)}
	d := scheduler.Descriptor[item, struct{}]{
		Name: "v", Prefix: "v/",
		Create: func(_ context.Context, k scheduler.Key, _ item) (struct{}, error) {
			if c := x.hang.Load(); c != nil && k == "v/hang" {
				<-*c
			}
			x.calls.Add(1)
			return struct{}{}, nil
		},
		Update: func(_ context.Context, _ scheduler.Key, _, _ item, _ struct{}) (struct{}, error) {
			x.calls.Add(1)
			return struct{}{}, nil
		},
		Delete: func(context.Context, scheduler.Key, item, struct{}) error { x.calls.Add(1); return nil },
		Needs: func(_ scheduler.Key, v item) []scheduler.Need {
			if v.need == "" {
				return nil
			}
			return []scheduler.Need{scheduler.On(v.need, "what it stands on")}
		},
		Equal: func(_ scheduler.Key, a, b item) bool { return a == b },
	}
	if retrieve != nil {
		d.Retrieve = func(_ context.Context, s scheduler.Scope[item, struct{}]) iter.Seq2[scheduler.Found[item, struct{}], error] {
			return func(yield func(scheduler.Found[item, struct{}], error) bool) {
				for _, f := range retrieve() {
					if (s.All || slices.Contains(s.Keys, f.Key)) && !yield(f, nil) {
						return
					}
				}
			}
		}
	}
	_, err := scheduler.Register(x.Scheduler, d)
	check(b, err)
	d.Name, d.Prefix = "hub", "hub/"
	_, err = scheduler.Register(x.Scheduler, d)
	check(b, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- x.Run(ctx) }()
	x.stop = func() { cancel(); <-done }
	x.want(b, scheduler.Txn{Complete: true})
	return x
}

func check(b testing.TB, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// want applies a transaction and tells how long that took.
func (x *bench) want(b testing.TB, t scheduler.Txn) time.Duration {
	began := time.Now()
	_, err := x.Apply(ctx, t)
	check(b, err)
	return time.Since(began)
}

// floor is the least program that makes the same callbacks in an order that
// respects needs.
type floor struct {
	values map[scheduler.Key]item
	above  map[scheduler.Key][]scheduler.Key
	calls  int
}

func (f *floor) create(scheduler.Key, item) { f.calls++ }

func (f *floor) apply(cs []scheduler.Change) {
	f.values = make(map[scheduler.Key]item, len(cs))
	f.above = map[scheduler.Key][]scheduler.Key{}
	var ready []scheduler.Key
	for _, c := range cs {
		v := c.Value.(item)
		f.values[c.Key] = v
		if v.need == "" {
			ready = append(ready, c.Key)
		} else {
			f.above[v.need] = append(f.above[v.need], c.Key)
		}
	}
	for i := 0; i < len(ready); i++ {
		f.create(ready[i], f.values[ready[i]])
		ready = append(ready, f.above[ready[i]]...)
	}
}

func sizes(b *testing.B) []int {
	if testing.Short() {
		return []int{1_000}
	}
	return []int{1_000, 10_000, 100_000}
}

func quiet() { runtime.GC(); runtime.GC() }

// settle makes one change and waits until it has caused n operations more than its own.
func (x *bench) settle(b *testing.B, c scheduler.Change, n int) time.Duration {
	from := x.calls.Load()
	began := time.Now()
	x.want(b, scheduler.Txn{Want: []scheduler.Change{c}})
	for x.calls.Load() < from+int64(n)+1 {
		time.Sleep(100 * time.Microsecond)
	}
	return time.Since(began)
}

// BenchmarkOneKey: Apply of a change to one key among many, from another
// goroutine; 100,000 samples.
func BenchmarkOneKey(b *testing.B) {
	for _, n := range append(sizes(b), 1_000_000) {
		if n > 100_000 && testing.Short() {
			continue
		}
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			x := newBench(b, nil)
			defer x.stop()
			x.want(b, scheduler.Txn{Want: tree(n)})
			quiet()
			for range b.N {
				x.percentiles(b, n, "")
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

const samples = 100_000

// percentiles changes one key after another and reports how long each took.
func (x *bench) percentiles(b *testing.B, n int, label string) {
	took := make([]time.Duration, samples)
	for i := range took {
		j := i * 7919 % n
		c := scheduler.Set(key(j), item{i + n, tree1(n, j)})
		took[i] = x.want(b, scheduler.Txn{Want: []scheduler.Change{c}})
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[samples/2].Nanoseconds())/1000, label+"p50-µs")
	b.ReportMetric(float64(took[samples*99/100].Nanoseconds())/1000, label+"p99-µs")
}

// tree1 is the need of one value of a tree.
func tree1(n, i int) scheduler.Key {
	if i == n-1 {
		return ""
	}
	return key(n - 1 - (n-2-i)/10)
}

// BenchmarkHang: the same while one operation hangs.
func BenchmarkHang(b *testing.B) {
	n := 10_000
	x := newBench(b, nil)
	defer x.stop()
	x.want(b, scheduler.Txn{Want: tree(n)})
	for range b.N {
		quiet()
		x.percentiles(b, n, "quiet-")
		c := make(chan struct{})
		x.hang.Store(&c)
		h := x.Submit(scheduler.Txn{Want: []scheduler.Change{scheduler.Set("v/hang", item{})}})
		time.Sleep(10 * time.Millisecond)
		x.percentiles(b, n, "hung-")
		close(c)
		_, err := h.Wait(ctx)
		check(b, err)
		x.want(b, scheduler.Txn{Want: []scheduler.Change{scheduler.Withdraw("v/hang")}})
	}
	b.ReportMetric(0, "ns/op")
}

// BenchmarkPreview: of a change to one key among many.
func BenchmarkPreview(b *testing.B) {
	for _, n := range append(sizes(b), 1_000_000) {
		if n > 100_000 && testing.Short() {
			continue
		}
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			x := newBench(b, nil)
			defer x.stop()
			x.want(b, scheduler.Txn{Want: tree(n)})
			quiet()
			i := 0
			for b.Loop() {
				j := i * 7919 % n
				i++
				c := scheduler.Set(key(j), item{j + n, tree1(n, j)})
				p, err := x.Preview(ctx, scheduler.Txn{Want: []scheduler.Change{c}})
				if err != nil || len(p.Steps) != 1 {
					b.Fatal(p, err)
				}
			}
		})
	}
}

// BenchmarkHeap: bytes for each value, key and value included, all configured;
// the history, which has its own bound, aside.
func BenchmarkHeap(b *testing.B) {
	n := 100_000
	if testing.Short() {
		n = 1_000
	}
	for name, values := range map[string]func(int) []scheduler.Change{"flat": flat, "tree": tree} {
		b.Run(name, func(b *testing.B) {
			for range b.N {
				before := heap()
				x := newBenchWith(b, scheduler.Options{HistoryCount: 1, HistoryBytes: 1}, nil)
				x.want(b, scheduler.Txn{Want: values(n)})
				b.ReportMetric(float64(heap()-before)/float64(n), "B/value")
				x.stop()
				runtime.KeepAlive(x)
				before = heap()
				f := &floor{}
				f.apply(values(n))
				b.ReportMetric(float64(heap()-before)/float64(n), "floor-B/value")
				runtime.KeepAlive(f)
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

func heap() int64 {
	quiet()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// BenchmarkHistory: what the history costs a one-key change and a cold apply:
// the best of rounds that take turns with and without one.
func BenchmarkHistory(b *testing.B) {
	n := sizes(b)[len(sizes(b))-1] / 10
	cs, least := flat(n), map[string]time.Duration{}
	var allocated [2]uint64
	for range b.N {
		for i, bytes := range []int{0, -1} {
			name := []string{"on", "off"}[i]
			x := newBenchWith(b, scheduler.Options{HistoryBytes: bytes}, nil)
			quiet()
			keep(least, name+"-cold-ns/key", x.want(b, scheduler.Txn{Want: cs})/time.Duration(n))
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			began := time.Now()
			for j := range n {
				x.want(b, scheduler.Txn{Want: []scheduler.Change{scheduler.Set(key(j), item{n: n + j})}})
			}
			keep(least, name+"-ns/change", time.Since(began)/time.Duration(n))
			runtime.ReadMemStats(&after)
			allocated[i] = (after.TotalAlloc - before.TotalAlloc) / uint64(n)
			x.stop()
		}
	}
	for name, d := range least {
		b.ReportMetric(float64(d), name)
	}
	b.ReportMetric(float64(allocated[0]), "on-B/change")
	b.ReportMetric(float64(allocated[1]), "off-B/change")
	b.ReportMetric(0, "ns/op")
}

func keep(least map[string]time.Duration, name string, d time.Duration) {
	if was, ok := least[name]; !ok || d < was {
		least[name] = d
	}
}

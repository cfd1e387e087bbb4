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
	value int // the newest that a key was changed to
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

// beside prints a figure and its bound. What fails where it is beyond says so; a
// duration depends on the machine and does not.
func beside(b *testing.B, name string, figure, bound float64, fails bool) {
	b.Helper()
	missed := ""
	if figure > bound {
		missed = "MISSED: "
		if fails && !testing.Short() {
			b.Fail()
		}
	}
	b.Logf("%s%s: %.3g, bound %g", missed, name, figure, bound)
}

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
// goroutine; the best of rounds of 100,000 samples. Among more keys it takes no
// longer.
func BenchmarkOneKey(b *testing.B) {
	var fewest float64 // p50 among the fewest keys
	for _, n := range append(sizes(b), 1_000_000) {
		if n > 100_000 && testing.Short() {
			continue
		}
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			least := floorOneKey(n) // before, as the collector would see it beside ours
			x := newBench(b, nil)
			defer x.stop()
			x.want(b, scheduler.Txn{Want: tree(n)})
			x.sample(b, n) // the first round measures how the heap grows
			for range b.N {
				var own best
				var mallocs, bytes float64
				for range rounds {
					var took []time.Duration
					took, mallocs, bytes = x.sample(b, n)
					own.of(took)
				}
				own.report(b, "")
				least.report(b, "floor-")
				b.ReportMetric(mallocs, "allocs/change")
				b.ReportMetric(bytes, "B/change")
				beside(b, "p50, µs", own.p50, 5, false)
				beside(b, "p99, µs", own.p99, 50, false)
				if fewest == 0 {
					fewest = own.p50
				}
				beside(b, "p50 × that among the fewest", own.p50/fewest, 2, true)
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

const samples = 100_000

// sample changes one key of a tree of n after another. It returns how long each
// took, sorted, and what each allocated on average.
func (x *bench) sample(b *testing.B, n int) (took []time.Duration, mallocs, bytes float64) {
	cs := x.changes(n)
	took = make([]time.Duration, len(cs))
	quiet()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for i := range cs {
		took[i] = x.want(b, scheduler.Txn{Want: cs[i : i+1]})
	}
	runtime.ReadMemStats(&after)
	slices.Sort(took)
	return took, float64(after.Mallocs-before.Mallocs) / samples, float64(after.TotalAlloc-before.TotalAlloc) / samples
}

// changes are new values for keys of a tree of n.
func (x *bench) changes(n int) []scheduler.Change {
	cs := make([]scheduler.Change, samples)
	for i := range cs {
		j := i * 7919 % n
		x.value++
		cs[i] = scheduler.Set(key(j), item{n + x.value, tree1(n, j)})
	}
	return cs
}

// floorOneKey is the same in the least program: a write to a map and the callback.
func floorOneKey(n int) (least best) {
	f := &floor{}
	f.apply(tree(n))
	for range rounds {
		cs := (&bench{}).changes(n)
		took := make([]time.Duration, len(cs))
		quiet()
		for i, c := range cs {
			began := time.Now()
			v := c.Value.(item)
			f.values[c.Key] = v
			f.create(c.Key, v)
			took[i] = time.Since(began)
		}
		slices.Sort(took)
		least.of(took)
	}
	return least
}

// best are the least percentiles of several rounds, in µs.
type best struct{ p50, p99 float64 }

func (p *best) of(took []time.Duration) {
	p50 := float64(took[len(took)/2].Nanoseconds()) / 1000
	p99 := float64(took[len(took)*99/100].Nanoseconds()) / 1000
	if p.p99 == 0 {
		p.p50, p.p99 = p50, p99
	}
	p.p50, p.p99 = min(p.p50, p50), min(p.p99, p99)
}

func (p *best) report(b *testing.B, label string) {
	b.ReportMetric(p.p50, label+"p50-µs")
	b.ReportMetric(p.p99, label+"p99-µs")
}

// tree1 is the need of one value of a tree.
func tree1(n, i int) scheduler.Key {
	if i == n-1 {
		return ""
	}
	return key(n - 1 - (n-2-i)/10)
}

// BenchmarkHang: the same while one operation hangs, and while none does.
func BenchmarkHang(b *testing.B) {
	n := 10_000
	x := newBench(b, nil)
	defer x.stop()
	x.want(b, scheduler.Txn{Want: tree(n)})
	for range b.N {
		var quietly, hung best
		for range rounds {
			took, _, _ := x.sample(b, n)
			quietly.of(took)
			c := make(chan struct{})
			x.hang.Store(&c)
			h := x.Submit(scheduler.Txn{Want: []scheduler.Change{scheduler.Set("v/hang", item{})}})
			time.Sleep(10 * time.Millisecond)
			took, _, _ = x.sample(b, n)
			hung.of(took)
			close(c)
			_, err := h.Wait(ctx)
			check(b, err)
			x.want(b, scheduler.Txn{Want: []scheduler.Change{scheduler.Withdraw("v/hang")}})
		}
		quietly.report(b, "quiet-")
		hung.report(b, "hung-")
		beside(b, "hung p99 × the quiet one", hung.p99/quietly.p99, 2, true)
	}
	b.ReportMetric(0, "ns/op")
}

// BenchmarkPreview: of a change to one key among many; among more keys it takes
// no longer, the caches aside.
func BenchmarkPreview(b *testing.B) {
	var fewest float64 // µs among the fewest keys
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
			took := float64(b.Elapsed().Nanoseconds()) / float64(b.N) / 1000
			beside(b, "preview, µs", took, 20, false)
			if fewest == 0 {
				fewest = took
			}
			beside(b, "preview × that among the fewest", took/fewest, 2, true)
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
	for _, w := range []struct {
		name   string
		values func(int) []scheduler.Change
		bound  float64
	}{{"flat", flat, 400}, {"tree", tree, 450}} {
		b.Run(w.name, func(b *testing.B) {
			for range b.N {
				before := heap()
				x := newBenchWith(b, scheduler.Options{HistoryCount: 1, HistoryBytes: 1}, nil)
				x.want(b, scheduler.Txn{Want: w.values(n)})
				each := float64(heap()-before) / float64(n)
				b.ReportMetric(each, "B/value")
				beside(b, "B for each value", each, w.bound, true)
				x.stop()
				runtime.KeepAlive(x)
				before = heap()
				f := &floor{}
				f.apply(w.values(n))
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

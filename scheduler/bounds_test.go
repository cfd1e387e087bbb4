package scheduler_test

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/plumb-net/plumb/scheduler"
)

// A shape is a kind of work that is measured at several sizes, beside the
// plainest program that makes the same callbacks. work and floor return how
// long the part that counts took.
type shape struct {
	name   string
	work   func(b *testing.B, n int) time.Duration
	floor  func(n int) time.Duration
	ratio  float64       // the bound beside the floor, 0 for none
	atMost time.Duration // the bound at a size, 0 for none
	at     int           // that size, 0 for the largest
}

var only = flag.String("shape", "", "measure only the shape of this name")

var growth = []int{1_000, 3_000, 10_000, 30_000, 100_000}

const (
	rounds = 5    // the best counts: what disturbs only makes it slower
	slack  = 0.05 // by which time may grow faster than the floor's
)

// BenchmarkBounds measures every shape at every size, prints it beside its
// floor and its bound, and fails where a ratio or the growth is beyond.
// Durations depend on the machine: they are printed, they do not fail.
func BenchmarkBounds(b *testing.B) {
	sizes := growth
	if testing.Short() {
		sizes = growth[:2]
	}
	b.ReportMetric(0, "ns/op")
	var table strings.Builder
	fmt.Fprintf(&table, "%-14s %10s %10s %8s %16s %8s %8s\n", "work", "ms", "floor ms", "×floor", "bound", "growth", "floor's")
	for _, s := range shapes() {
		if *only != "" && s.name != *only {
			continue
		}
		var times, floors []float64
		for _, n := range sizes {
			took, least := time.Duration(math.MaxInt64), time.Duration(math.MaxInt64)
			for range rounds {
				quiet()
				least = min(least, s.floor(n))
				quiet()
				took = min(took, s.work(b, n))
			}
			times, floors = append(times, took.Seconds()), append(floors, least.Seconds())
		}
		last := len(sizes) - 1
		ratio, grows, floorGrows := times[last]/floors[last], exponent(sizes, times), exponent(sizes, floors)
		bound := ""
		if s.ratio > 0 {
			bound = fmt.Sprintf("%g×", s.ratio)
		}
		bounded := last
		if s.atMost > 0 {
			bound = strings.TrimSpace(bound + " " + s.atMost.String())
			if i := slices.Index(sizes, s.at); i >= 0 {
				bounded = i
				bound += fmt.Sprintf(" at %d", s.at)
			}
		}
		fmt.Fprintf(&table, "%-14s %10.2f %10.2f %8.1f %16s %8.2f %8.2f", s.name, times[last]*1000, floors[last]*1000, ratio, bound, grows, floorGrows)
		for _, missed := range s.missed(times[bounded], ratio, grows, floorGrows) {
			fmt.Fprintf(&table, "  MISSED: %s", missed)
			if missed != "duration" && !testing.Short() {
				b.Fail()
			}
		}
		table.WriteByte('\n')
	}
	b.Log("\n" + table.String())
}

func (s shape) missed(seconds, ratio, grows, floorGrows float64) (out []string) {
	if s.ratio > 0 && ratio > s.ratio {
		out = append(out, "ratio")
	}
	if s.atMost > 0 && seconds > s.atMost.Seconds() {
		out = append(out, "duration")
	}
	if grows > max(floorGrows, 1)+slack {
		out = append(out, "growth")
	}
	return out
}

// exponent fits time = c·n^x and returns x.
func exponent(sizes []int, times []float64) float64 {
	var sx, sy, sxx, sxy float64
	for i, n := range sizes {
		x, y := math.Log(float64(n)), math.Log(times[i])
		sx, sy, sxx, sxy = sx+x, sy+y, sxx+x*x, sxy+x*y
	}
	k := float64(len(sizes))
	return (k*sxy - sx*sy) / (k*sxx - sx*sx)
}

func shapes() []shape {
	cold := func(items func(int) []scheduler.Change, ops func(n int) int) func(*testing.B, int) time.Duration {
		return func(b *testing.B, n int) time.Duration {
			cs := items(n)
			x := newBench(b, nil)
			defer x.stop()
			quiet()
			took := x.want(b, scheduler.Txn{Want: cs})
			if got := x.calls.Load(); got != int64(ops(n)) {
				b.Fatalf("%d operations for %d values", got, n)
			}
			return took
		}
	}
	plain := func(items func(int) []scheduler.Change) func(int) time.Duration {
		return func(n int) time.Duration {
			cs := items(n)
			quiet()
			began := time.Now()
			(&floor{}).apply(cs)
			return time.Since(began)
		}
	}
	all, none := func(n int) int { return n }, func(int) int { return 0 }
	return []shape{
		{"flat", cold(flat, all), plain(flat), 5, 120 * time.Millisecond, 0},
		{"tree", cold(tree, all), plain(tree), 4, 200 * time.Millisecond, 0},
		{"chain", cold(chain, all), plain(chain), 0, 0, 0},
		{"all pending", cold(pending, none), plain(pending), 0, 0, 0},
		{"hub, n pend", cold(hub, none), plain(hub), 0, 100 * time.Millisecond, 0},
		{"hub comes", hubMoves(true), hubFloor, 0, 100 * time.Millisecond, 0},
		{"hub goes", hubMoves(false), hubFloor, 0, 100 * time.Millisecond, 0},
		{"root goes", rootMoves(false), chainFloor, 0, 20 * time.Millisecond, 10_000},
		{"root returns", rootMoves(true), chainFloor, 0, 20 * time.Millisecond, 10_000},
		{"said again", again, plain(tree), 0, 40 * time.Millisecond, 0},
		{"read again", readAgain, readFloor, 0, 40 * time.Millisecond, 0},
		{"churn", churn, churnFloor, 0, 0, 0},
	}
}

// pending are values that each need a key of their own, which never comes.
func pending(n int) []scheduler.Change {
	return items(n, func(i int) scheduler.Key { return scheduler.Key(fmt.Sprintf("hub/%07d", i)) })
}

// hubMoves measures how long it takes until all n dependents of one key are
// made after it comes, or gone when it goes.
func hubMoves(comes bool) func(*testing.B, int) time.Duration {
	return func(b *testing.B, n int) time.Duration {
		x := newBench(b, nil)
		defer x.stop()
		x.want(b, scheduler.Txn{Want: hub(n)})
		quiet()
		took := x.settle(b, scheduler.Set("hub/0", item{}), n)
		if !comes {
			quiet()
			took = x.settle(b, scheduler.Withdraw("hub/0"), n)
		}
		return took
	}
}

// hubFloor calls a function for each of n values.
func hubFloor(n int) time.Duration {
	f := &floor{}
	f.apply(append(hub(n), scheduler.Set("hub/0", item{})))
	above := f.above["hub/0"]
	quiet()
	began := time.Now()
	for _, k := range above {
		f.create(k, f.values[k])
	}
	return time.Since(began)
}

// rootMoves: the root of a chain of n goes, or comes back.
func rootMoves(returns bool) func(*testing.B, int) time.Duration {
	return func(b *testing.B, n int) time.Duration {
		x := newBench(b, nil)
		defer x.stop()
		x.want(b, scheduler.Txn{Want: chain(n)})
		quiet()
		took := x.settle(b, scheduler.Withdraw(key(0)), n-1)
		if returns {
			quiet()
			took = x.settle(b, scheduler.Set(key(0), item{}), n-1)
		}
		return took
	}
}

func chainFloor(n int) time.Duration {
	f := &floor{}
	f.apply(chain(n))
	quiet()
	began := time.Now()
	for k := []scheduler.Key{key(0)}; len(k) > 0; k = f.above[k[0]] {
		f.create(k[0], f.values[k[0]])
	}
	return time.Since(began)
}

// again: a source says once more all that it wants.
func again(b *testing.B, n int) time.Duration {
	cs := tree(n)
	x := newBench(b, nil)
	defer x.stop()
	x.want(b, scheduler.Txn{Want: cs, Complete: true})
	calls := x.calls.Load()
	quiet()
	took := x.want(b, scheduler.Txn{Want: cs, Complete: true})
	if x.calls.Load() != calls {
		b.Fatal("what is said again did something")
	}
	return took
}

// found is what Retrieve yields.
func found(n int) []scheduler.Found[item, struct{}] {
	out := make([]scheduler.Found[item, struct{}], n)
	for i, c := range tree(n) {
		out[i] = scheduler.Found[item, struct{}]{Key: c.Key, Value: c.Value.(item)}
	}
	return out
}

// readAgain: everything is read once more and is as it was.
func readAgain(b *testing.B, n int) time.Duration {
	there := found(n)
	x := newBench(b, func() []scheduler.Found[item, struct{}] { return there })
	defer x.stop()
	x.want(b, scheduler.Txn{Want: tree(n)})
	x.want(b, scheduler.Txn{LookAll: true})
	calls := x.calls.Load()
	quiet()
	took := x.want(b, scheduler.Txn{LookAll: true})
	if x.calls.Load() != calls {
		b.Fatal("what is seen again did something")
	}
	return took
}

// readFloor compares what is there with a map of what should be.
func readFloor(n int) time.Duration {
	there, want := found(n), make(map[scheduler.Key]item, n)
	for _, f := range there {
		want[f.Key] = f.Value
	}
	quiet()
	began := time.Now()
	same := 0
	for _, f := range there {
		if want[f.Key] == f.Value {
			same++
		}
	}
	if same != n {
		panic("not the same")
	}
	return time.Since(began)
}

// churnOf is n changes of n values: half of them go, half come.
func churnOf(n int) [][]scheduler.Change {
	rng := rand.New(rand.NewPCG(1, uint64(n)))
	var out [][]scheduler.Change
	gone := map[int]bool{}
	for len(out) < n/10 {
		var txn []scheduler.Change
		for range 10 {
			i := rng.IntN(n)
			if gone[i] = !gone[i]; gone[i] {
				txn = append(txn, scheduler.Withdraw(key(i)))
			} else {
				txn = append(txn, scheduler.Set(key(i), item{i, ""}))
			}
		}
		out = append(out, txn)
	}
	return out
}

// churn is n changes, ten to a transaction, one transaction after the other.
func churn(b *testing.B, n int) time.Duration {
	txns := churnOf(n)
	x := newBench(b, nil)
	defer x.stop()
	x.want(b, scheduler.Txn{Want: flat(n)})
	quiet()
	began := time.Now()
	for _, t := range txns {
		x.want(b, scheduler.Txn{Want: t})
	}
	return time.Since(began)
}

func churnFloor(n int) time.Duration {
	txns := churnOf(n)
	f := &floor{}
	f.apply(flat(n))
	quiet()
	began := time.Now()
	for _, t := range slices.Concat(txns...) {
		if t.Value == nil {
			delete(f.values, t.Key)
		} else {
			f.values[t.Key] = t.Value.(item)
		}
		f.create(t.Key, item{})
	}
	return time.Since(began)
}

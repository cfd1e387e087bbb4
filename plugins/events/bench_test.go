package events

import (
	"context"
	"testing"

	"github.com/plumb-net/plumb/plugins/container"
)

func BenchmarkAdd(b *testing.B) {
	e := some(1)
	b.Run("alone", func(b *testing.B) {
		l := New(Limits{}, nil, 0)
		b.ReportAllocs()
		for b.Loop() {
			l.Add(e)
		}
	})
	b.Run("disk", func(b *testing.B) {
		f, earlier, next, err := Open(b.TempDir(), 8<<20, silent)
		if err != nil {
			b.Fatal(err)
		}
		l := New(Limits{}, earlier, next)
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error)
		go func() { done <- f.Run(ctx, l, 0) }()
		b.ReportAllocs()
		for b.Loop() {
			l.Add(e)
		}
		b.StopTimer()
		cancel()
		<-done
	})
	b.Run("100watchers", func(b *testing.B) {
		l := New(Limits{}, nil, 0)
		for range 100 {
			watch(b, l, Query{}, 0)
		}
		b.ReportAllocs()
		for b.Loop() {
			l.Add(e)
		}
	})
}

func BenchmarkQuery100k(b *testing.B) {
	l := New(Limits{Bytes: 1 << 30}, nil, 0)
	for n := range 100_000 {
		l.Add(some(n))
	}
	for name, q := range map[string]Query{
		"newest10": {Limit: 10},
		"one":      {Container: "web3", Types: []Type{container.Died}, Limit: 10},
		"none":     {Labels: []string{"none"}},
		"all":      {},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				l.Query(q)
			}
		})
	}
}

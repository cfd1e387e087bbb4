package api

import (
	"sync"
	"sync/atomic"
)

// several does something for each of n, so many at a time, until one of them says that this
// is enough. Where one panics, it does so here: who called knows what to do about it.
func several(n, workers int, do func(i int) (more bool)) {
	if workers < 2 || n < 2 {
		for i := 0; i < n && do(i); i++ {
		}
		return
	}
	var next atomic.Int64
	var enough atomic.Bool
	var panicked atomic.Pointer[any]
	var group sync.WaitGroup
	for range min(workers, n) {
		group.Go(func() {
			defer func() {
				if p := recover(); p != nil {
					panicked.Store(&p)
					enough.Store(true)
				}
			}()
			for !enough.Load() {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if !do(i) {
					enough.Store(true)
				}
			}
		})
	}
	group.Wait()
	if p := panicked.Load(); p != nil {
		panic(*p)
	}
}

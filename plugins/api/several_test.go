package api

import (
	"sync/atomic"
	"testing"
)

func TestSeveral(t *testing.T) {
	for _, workers := range []int{1, 2, 7} {
		for _, n := range []int{0, 1, 2, 6, 1000} {
			done := make([]atomic.Int32, n)
			several(n, workers, func(i int) bool { done[i].Add(1); return true })
			for i := range done {
				if done[i].Load() != 1 {
					t.Fatalf("of %d by %d, %d was done %d times", n, workers, i, done[i].Load())
				}
			}
		}
		var begun atomic.Int32
		several(1000, workers, func(i int) bool { begun.Add(1); return i < 100 })
		if n := int(begun.Load()); n < 101 || n > 101+workers {
			t.Errorf("by %d: %d were begun, where 100 said that it is enough", workers, n)
		}
	}
}

// A panic comes to who asked.
func TestSeveralPanics(t *testing.T) {
	for _, workers := range []int{1, 3} {
		func() {
			defer func() {
				if p := recover(); p != "no" {
					t.Errorf("by %d: recovered %v", workers, p)
				}
			}()
			several(500, workers, func(i int) bool {
				if i == 499 {
					panic("no")
				}
				return true
			})
		}()
	}
}

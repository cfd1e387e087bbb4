package api

import (
	"sync/atomic"
	"testing"
)

func TestInParts(t *testing.T) {
	for _, n := range []int{0, 1, 255, 256, 257, 1000, 5001} {
		done := make([]atomic.Int32, n)
		inParts(n, func(i int) { done[i].Add(1) })
		for i := range done {
			if done[i].Load() != 1 {
				t.Fatalf("of %d, %d was done %d times", n, i, done[i].Load())
			}
		}
	}
}

// A panic comes to who asked, who knows what to do about it.
func TestInPartsPanics(t *testing.T) {
	for _, n := range []int{1, 5000} {
		func() {
			defer func() {
				if p := recover(); p != "no" {
					t.Errorf("of %d: recovered %v", n, p)
				}
			}()
			inParts(n, func(i int) {
				if i == n-1 {
					panic("no")
				}
			})
		}()
	}
}

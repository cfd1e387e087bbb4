package pool

import (
	"container/heap"
	"slices"
)

// waiting are the claims that no address was left for; the smallest name first.
type waiting struct {
	names names
	in    map[string]bool
}

func (w *waiting) add(claim string) {
	if w.in == nil {
		w.in = map[string]bool{}
	}
	if !w.in[claim] {
		w.in[claim] = true
		heap.Push(&w.names, claim)
	}
}

func (w *waiting) remove(claim string) { delete(w.in, claim) }

// first is the claim whose turn it is.
func (w *waiting) first() (string, bool) {
	for len(w.names) > 0 {
		if w.in[w.names[0]] {
			return w.names[0], true
		}
		heap.Pop(&w.names)
	}
	return "", false
}

// names is a heap. A claim that left and came back may be in it twice.
type names []string

func (n names) Len() int           { return len(n) }
func (n names) Less(i, j int) bool { return n[i] < n[j] }
func (n names) Swap(i, j int)      { n[i], n[j] = n[j], n[i] }
func (n *names) Push(x any)        { *n = append(*n, x.(string)) }
func (n *names) Pop() any {
	last := len(*n) - 1
	x := (*n)[last]
	*n = slices.Delete(*n, last, last+1)
	return x
}

package graph

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// The table is what a map is, whatever comes and goes.
func TestTableIsAMap(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	got, want := newTable(), map[Key]*Node{}
	for step := range 200_000 {
		span := 1 + (step/20_000)*1000 // few keys, then more
		k := Key(fmt.Sprintf("k/%d", rng.IntN(span)))
		if n := got.get(k); n != want[k] {
			t.Fatalf("step %d: %s is %v, want %v", step, k, n, want[k])
		}
		switch {
		case want[k] == nil && rng.IntN(3) > 0:
			n := &Node{Key: k}
			p, hash, _ := got.find(k)
			got.put(p, hash, n)
			want[k] = n
		case rng.IntN(2) == 0:
			got.remove(k)
			delete(want, k)
		case rng.IntN(1000) == 0:
			got.grow(rng.IntN(5000))
		}
		if step%5000 > 0 {
			continue
		}
		seen := map[Key]*Node{}
		got.all(func(n *Node) bool { seen[n.Key] = n; return true })
		if len(seen) != len(want) || got.count != len(want) {
			t.Fatalf("step %d: %d nodes, count %d, want %d", step, len(seen), got.count, len(want))
		}
		for k, n := range want {
			if seen[k] != n {
				t.Fatalf("step %d: %s is not among all", step, k)
			}
		}
	}
}

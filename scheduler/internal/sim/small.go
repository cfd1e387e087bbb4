package sim

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/plumb-net/plumb/scheduler/schedulertest"
)

// Small yields all small graphs, each as a plain history: its values are
// asked for at once, one is changed, one is withdrawn and comes back, what is
// observed goes and returns, and at last all is withdrawn. Graphs that
// differ only in the names of their keys come once. All that may go wrong is
// then tried at every place, see [Places].
//
// A graph has n keys, of which each needs none, some or all of the others;
// cycles are among them. What a need is, in turn: plain, one that looks at the
// text, one on any key of the kind, one that is built in, one that a derived
// value has. The last key of a graph may be one that is observed.
func Small(n int) iter.Seq[[]Step] {
	return func(yield func([]Step) bool) {
		seen := map[string]bool{}
		for bits := range 1 << (n * n) {
			g := graph{n: n, bits: bits}
			if g.loops() || seen[g.canonical()] {
				continue
			}
			seen[g.canonical()] = true
			for _, sort := range []string{"", "=v1", "/", "@", "derived", "peer"} {
				if bits == 0 && sort != "" {
					continue
				}
				if !yield(g.history(sort)) {
					return
				}
			}
		}
	}
}

// graph has an edge from i to j where bit i*n+j is set.
type graph struct{ n, bits int }

func (g graph) edge(i, j int) bool { return g.bits>>(i*g.n+j)&1 == 1 }

func (g graph) loops() bool {
	for i := range g.n {
		if g.edge(i, i) {
			return true
		}
	}
	return false
}

// canonical is the same for graphs that differ only in the order of their keys
// but for the last, which is observed if it needs nothing.
func (g graph) canonical() string {
	best := ""
	for _, p := range permutations(g.n - 1) {
		p = append(p, g.n-1)
		var b strings.Builder
		for i := range g.n {
			for j := range g.n {
				if g.edge(p[i], p[j]) {
					b.WriteByte('1')
				} else {
					b.WriteByte('0')
				}
			}
		}
		if s := b.String(); best == "" || s < best {
			best = s
		}
	}
	return best
}

func permutations(n int) (out [][]int) {
	if n == 0 {
		return [][]int{nil}
	}
	for _, p := range permutations(n - 1) {
		for i := range n {
			out = append(out, slices.Insert(slices.Clone(p), i, n-1))
		}
	}
	return out
}

// key is the i-th key. The last one, if it needs nothing, is observed.
func (g graph) key(i int) string {
	if i == g.n-1 && g.n > 1 && g.needsNothing(i) {
		return "o/1"
	}
	return fmt.Sprintf("%c/%d", "ab"[i%2], i)
}

func (g graph) needsNothing(i int) bool { return (g.bits>>(i*g.n))&(1<<g.n-1) == 0 }

// value is the line that asks for the i-th key.
func (g graph) value(i int, text, sort string) string {
	var needs []string
	peer := ""
	for j := range g.n {
		if !g.edge(i, j) {
			continue
		}
		k := g.key(j)
		switch {
		case sort == "derived" && strings.HasPrefix(k, "a/"):
			k = "d/" + k[2:] + "/p"
		case sort == "peer" && g.edge(j, i) && peer == "":
			peer, k = k, ""
		case sort == "/":
			k = k[:2]
		case sort == "=v1", sort == "@":
			k += sort
		}
		if k != "" && !slices.Contains(needs, k) {
			needs = append(needs, k)
		}
	}
	t := schedulertest.Thing{Text: text, Needs: needs, Peer: peer}
	if strings.HasPrefix(g.key(i), "a/") {
		t.Derives = []string{"p"}
	}
	return g.key(i) + " " + t.String()
}

func (g graph) history(sort string) []Step {
	var all, gone []string
	setup := Step{Do: "setup", Lines: []string{"a derives=d", "b noupdate echo", "d", "o observed"}}
	steps := []Step{setup}
	for i := range g.n {
		if g.key(i) == "o/1" {
			steps = append(steps, Step{Do: "put", Lines: []string{"o/1 v1"}})
			continue
		}
		all = append(all, g.value(i, "v1", sort))
		gone = append(gone, g.key(i)+" -")
	}
	steps = append(steps, Step{Do: "txn", Lines: all})
	last := len(gone) - 1
	steps = append(steps,
		Step{Do: "txn", Lines: []string{g.value(last, "v2", sort)}},
		Step{Do: "txn", Lines: gone[last:]},
		Step{Do: "txn", Lines: all[last:]})
	if len(all) < g.n {
		steps = append(steps, Step{Do: "take", Lines: []string{"o/1"}}, Step{Do: "put", Lines: []string{"o/1 v1"}})
	}
	return append(steps, Step{Do: "txn", Lines: gone[:1]}, Step{Do: "txn", Lines: all[:1]}, Step{Do: "txn", Lines: gone})
}

// Places yields the history as it is, and with each fault at each place: every
// operation, as many as there were, fails in each way or is the last of its
// process; every event is lost, late or doubled.
func Places(h []Step, operations, events int) iter.Seq[[]Step] {
	return func(yield func([]Step) bool) {
		with := func(what string, n int, f schedulertest.Fault) bool {
			line := fmt.Sprintf("%s %d: %s", what, n, f)
			return yield(slices.Insert(slices.Clone(h), 1, Step{Do: "fault", Lines: []string{line}}))
		}
		for n := range operations {
			for _, f := range schedulertest.FaultsOf("create") {
				if !with("operation", n+1, f) {
					return
				}
			}
		}
		for n := range events {
			for _, f := range schedulertest.FaultsOf("events") {
				if !with("events", n+1, f) {
					return
				}
			}
		}
	}
}

package layout_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/plumb-net/plumb/plugins/layout"
)

// TestDrawings: testdata/drawings has boxes (id, parent or -, width, height, and break) and
// lines (from -> to), and where they came to be.
func TestDrawings(t *testing.T) {
	datadriven.RunTest(t, "testdata/drawings", func(t *testing.T, d *datadriven.TestData) string {
		var boxes []layout.Box
		var lines []layout.Line
		for text := range strings.Lines(d.Input) {
			f := strings.Fields(text)
			if len(f) == 3 && f[1] == "->" {
				lines = append(lines, layout.Line{From: f[0], To: f[2]})
				continue
			}
			b := layout.Box{ID: f[0], Break: len(f) > 4}
			if f[1] != "-" {
				b.Parent = f[1]
			}
			fmt.Sscan(strings.Join(f[2:4], " "), &b.Width, &b.Height)
			boxes = append(boxes, b)
		}
		got := layout.Place(boxes, lines)
		check(t, boxes, lines, got)
		var out strings.Builder
		fmt.Fprintf(&out, "%v x %v\n", got.Width, got.Height)
		for i, r := range got.Boxes {
			fmt.Fprintf(&out, "%s at %v,%v, %v x %v\n", boxes[i].ID, r.X, r.Y, r.Width, r.Height)
		}
		for i, ps := range got.Lines {
			fmt.Fprintf(&out, "%s -> %s:", lines[i].From, lines[i].To)
			for _, p := range ps {
				fmt.Fprintf(&out, " %v,%v", p.X, p.Y)
			}
			fmt.Fprintln(&out)
		}
		return out.String()
	})
}

// check looks at a drawing by itself: what is in a box is inside of it, boxes beside each
// other do not touch, and lines cross none but those that their ends are in.
func check(t *testing.T, boxes []layout.Box, lines []layout.Line, d layout.Drawing) {
	t.Helper()
	at := map[string]int{}
	for i, b := range boxes {
		at[b.ID] = i
	}
	around := func(id string) (all []string) {
		for id != "" {
			all = append(all, id)
			id = boxes[at[id]].Parent
		}
		return all
	}
	for i, b := range boxes {
		r := d.Boxes[i]
		if r.Width < b.Width || r.Height < b.Height {
			t.Errorf("%s is %v x %v and needs %v x %v", b.ID, r.Width, r.Height, b.Width, b.Height)
		}
		outer := layout.Rect{Width: d.Width, Height: d.Height}
		if b.Parent != "" {
			outer = d.Boxes[at[b.Parent]]
		}
		if r.X < outer.X || r.Y < outer.Y+0 || r.X+r.Width > outer.X+outer.Width || r.Y+r.Height > outer.Y+outer.Height {
			t.Errorf("%s is not inside of %q", b.ID, b.Parent)
		}
		for j := range i {
			o := d.Boxes[j]
			if boxes[j].Parent == b.Parent && r.X < o.X+o.Width && o.X < r.X+r.Width && r.Y < o.Y+o.Height && o.Y < r.Y+r.Height {
				t.Errorf("%s and %s are at one place", b.ID, boxes[j].ID)
			}
		}
	}
	for i, l := range lines {
		ps := d.Lines[i]
		_, known1 := at[l.From]
		_, known2 := at[l.To]
		if !known1 || !known2 || l.From == l.To {
			if ps != nil {
				t.Errorf("%v leads nowhere, and has points", l)
			}
			continue
		}
		if len(ps) < 2 || !onEdge(d.Boxes[at[l.From]], ps[0]) || !onEdge(d.Boxes[at[l.To]], ps[len(ps)-1]) {
			t.Errorf("%v does not lead from one to the other: %v", l, ps)
			continue
		}
		may := append(around(l.From), around(l.To)...)
		for k := 1; k < len(ps); k++ {
			a, b := ps[k-1], ps[k]
			if a.X != b.X && a.Y != b.Y {
				t.Errorf("%v goes aslant: %v", l, ps)
			}
			for j, r := range d.Boxes {
				crosses := max(a.X, b.X) > r.X && min(a.X, b.X) < r.X+r.Width && max(a.Y, b.Y) > r.Y && min(a.Y, b.Y) < r.Y+r.Height
				if crosses && !slices.Contains(may, boxes[j].ID) {
					t.Errorf("%v crosses %s", l, boxes[j].ID)
				}
			}
		}
	}
}

func onEdge(r layout.Rect, p layout.Point) bool {
	in := p.X >= r.X && p.X <= r.X+r.Width && p.Y >= r.Y && p.Y <= r.Y+r.Height
	return in && (p.X == r.X || p.X == r.X+r.Width || p.Y == r.Y || p.Y == r.Y+r.Height)
}

// draw makes boxes up to four deep, some lines between them, and some that lead nowhere.
func draw(rng *rand.Rand) (boxes []layout.Box, lines []layout.Line) {
	depth := map[string]int{}
	for i := range 1 + rng.IntN(60) {
		b := layout.Box{ID: fmt.Sprintf("b%02d", i), Width: 20 + float64(rng.IntN(300)), Height: 10 + float64(rng.IntN(90)), Break: rng.IntN(9) == 0}
		if i > 0 && rng.IntN(4) > 0 {
			if p := boxes[rng.IntN(i)].ID; depth[p] < 3 {
				b.Parent, depth[b.ID] = p, depth[p]+1
			}
		}
		boxes = append(boxes, b)
	}
	for range rng.IntN(120) {
		lines = append(lines, layout.Line{From: fmt.Sprintf("b%02d", rng.IntN(len(boxes)+1)), To: fmt.Sprintf("b%02d", rng.IntN(len(boxes)))})
	}
	return boxes, lines
}

func TestLinesCrossNoBox(t *testing.T) {
	for seed := range uint64(400) {
		boxes, lines := draw(rand.New(rand.NewPCG(seed, 1)))
		check(t, boxes, lines, layout.Place(boxes, lines))
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// network is many places with as many interfaces each, one cable from each place to the
// first one.
func network(places, each int) (boxes []layout.Box, lines []layout.Line) {
	for p := range places {
		place := fmt.Sprintf("p%04d", p)
		boxes = append(boxes, layout.Box{ID: place, Width: 90, Height: 24})
		for i := range each {
			boxes = append(boxes, layout.Box{ID: fmt.Sprintf("%s/%04d", place, i), Parent: place, Width: 120, Height: 40})
		}
		if p > 0 {
			lines = append(lines, layout.Line{From: place + "/0000", To: fmt.Sprintf("p0000/%04d", p%each)})
		}
	}
	return boxes, lines
}

// TestOneMoreMovesFew: one more interface of 500 leaves the places before it where they
// are, and all others in their order.
func TestOneMoreMovesFew(t *testing.T) {
	boxes, lines := network(100, 5)
	before := layout.Place(boxes, lines)
	at := slices.IndexFunc(boxes, func(b layout.Box) bool { return b.ID == "p0050/0003" })
	more := slices.Insert(slices.Clone(boxes), at, layout.Box{ID: "new", Parent: "p0050", Width: 120, Height: 40})
	after := layout.Place(more, lines)
	after.Boxes = slices.Delete(slices.Clone(after.Boxes), at, at+1)
	for i := range boxes {
		b, a := before.Boxes[i], after.Boxes[i]
		if i < at-4 && (b.X != a.X || b.Y != a.Y) {
			t.Errorf("%s was at %v and is at %v", boxes[i].ID, b, a)
		}
		for j := range i {
			if c := after.Boxes[j]; boxes[i].Parent == boxes[j].Parent && (c.Y > a.Y || c.Y == a.Y && c.X > a.X) {
				t.Errorf("%s came behind %s", boxes[j].ID, boxes[i].ID)
			}
		}
	}
}

// BenchmarkPlace: a network of n interfaces; the time grows as n does.
func BenchmarkPlace(b *testing.B) {
	for _, n := range []int{500, 5000} {
		boxes, lines := network(n/5, 5)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				layout.Place(boxes, lines)
			}
		})
	}
}

package layout

import (
	"cmp"
	"math"
	"slices"
)

// track is a channel or a margin: a strip in which lines run side by side.
type track struct {
	at    float64 // its upper or left edge
	lanes int     // for which there is room
	uses  []*use
}

// use is the piece of a track that a line takes.
type use struct {
	from, to float64 // along the track
	lane     int
	of       *track
}

func (t *track) size() float64 { return gap + float64(t.lanes)*laneGap }

func (t *track) measure() {
	for _, u := range t.uses {
		t.lanes = max(t.lanes, u.lane+1)
	}
}

// place is where the line of a use runs, across the track.
func (u *use) place() float64 { return u.of.at + gap/2 + (float64(u.lane)+0.5)*laneGap }

// share gives the uses lanes, so that those that overlap have different ones as long as
// there are some.
func (t *track) share() {
	room := lanesMax
	if t.lanes > 0 {
		room = t.lanes
	}
	slices.SortStableFunc(t.uses, func(a, b *use) int { return cmp.Compare(a.from, b.from) })
	var ends [lanesMax]float64
	used := 0
	for _, u := range t.uses {
		u.lane = -1
		for i := range used {
			if ends[i]+laneGap <= u.from {
				u.lane = i
				break
			}
		}
		switch {
		case u.lane >= 0:
		case used < room:
			u.lane = used
			used++
		default: // beside the one that ends first
			u.lane = slices.Index(ends[:room], slices.Min(ends[:room]))
		}
		ends[u.lane] = max(ends[u.lane], u.to)
	}
}

// The sides by which a line leaves a box.
const (
	up = iota
	down
)

// end is where a line leaves a box.
type end struct {
	box  *node
	side int
	x    float64
	far  *node // what is at the other end
	// inner: the line is within the box, and begins at the margin.
	inner bool
}

func (e *end) y() float64 {
	if e.side == down {
		return e.box.Y + e.box.Rect.Height
	}
	return e.box.Y
}

// route is the way of a line: from an end, by turns through horizontal and vertical pieces,
// the first of which is horizontal if there is one, to the other end.
type route struct {
	from, to end
	uses     []*use
}

// lead finds the way between two boxes.
func lead(from, to *node) *route {
	r := &route{from: end{box: from, far: to}, to: end{box: to, far: from}}
	a, b := from, to
	for a.depth > b.depth {
		a = a.parent
	}
	for b.depth > a.depth {
		b = b.parent
	}
	if a == b { // one is in the other
		r.within(a)
		return r
	}
	for a.parent != b.parent {
		a, b = a.parent, b.parent
	}
	switch {
	case a.row < b.row:
		r.from.side, r.to.side = down, up
	case a.row > b.row:
		r.from.side, r.to.side = up, down
	default:
		r.from.side, r.to.side = down, down
	}
	out := climb(from, a, r.from.side)
	in := climb(to, b, r.to.side)
	slices.Reverse(in)
	r.uses = append(r.uses, out...)
	c1, c2 := channel(a, r.from.side), channel(b, r.to.side)
	r.uses = append(r.uses, &use{of: c1})
	if c1 != c2 {
		r.uses = append(r.uses, &use{of: margin(a.parent, (from.center()+to.center())/2)}, &use{of: c2})
	}
	r.uses = append(r.uses, in...)
	r.enter()
	return r
}

// within leads from what is inside of a box to the edge of the box, or back.
func (r *route) within(outer *node) {
	inner, turned := r.from.box, false
	if inner == outer {
		inner, turned = r.to.box, true
	}
	top := inner
	for top.parent != outer {
		top = top.parent
	}
	r.from.side, r.to.side = down, down
	r.uses = append(climb(inner, top, down), &use{of: channel(top, down)}, &use{of: &outer.left})
	r.to.inner = true
	if turned {
		slices.Reverse(r.uses)
		r.from.inner, r.to.inner = true, false
	}
	r.enter()
}

// enter has the tracks and boxes know of the line.
func (r *route) enter() {
	for _, u := range r.uses {
		u.of.uses = append(u.of.uses, u)
	}
	for _, e := range []*end{&r.from, &r.to} {
		if !e.inner {
			e.box.ports[e.side] = append(e.box.ports[e.side], e)
		}
	}
}

// climb leads out of the boxes around n up to top. Downwards from the last row it goes on
// straight; upwards the title is in the way, but not in the right margin.
func climb(n, top *node, side int) (uses []*use) {
	for ; n != top; n = n.parent {
		p := n.parent
		if side == down && n.row == len(p.rows)-1 {
			continue
		}
		out := &p.right
		if side == down {
			out = margin(p, n.center())
		}
		uses = append(uses, &use{of: channel(n, side)}, &use{of: out})
	}
	return uses
}

func channel(n *node, side int) *track { return &n.parent.channels[n.row+side] }

// margin is the one that is nearer to x.
func margin(n *node, x float64) *track {
	if x < n.center() {
		return &n.left
	}
	return &n.right
}

func (n *node) center() float64 { return n.X + n.Rect.Width/2 }

// settle finds where lines leave their boxes, how far they run in each track, and in which
// lane.
func settle(routes []*route, all []*node) {
	for _, n := range all {
		for side := range n.ports {
			ports := n.ports[side]
			slices.SortStableFunc(ports, func(a, b *end) int { return cmp.Compare(a.far.center(), b.far.center()) })
			for i, e := range ports {
				e.x = math.Round(n.X + n.Rect.Width*float64(i+1)/float64(len(ports)+1))
			}
		}
	}
	tracks := map[*track]bool{}
	// How far a line runs in a track depends on the lanes of those before and after it; that
	// is less than the width of a track, so the middle of it will do here.
	for _, r := range routes {
		if r == nil {
			continue
		}
		for i, u := range r.uses {
			tracks[u.of] = true
			a, b := r.before(i), r.after(i)
			u.from, u.to = min(a, b), max(a, b)
		}
	}
	for t := range tracks {
		t.share()
	}
}

// before is where, along the piece i, the line comes from.
func (r *route) before(i int) float64 {
	if i > 0 {
		return r.uses[i-1].middle()
	}
	if r.from.inner {
		return r.from.box.Y + r.from.box.Rect.Height/2
	}
	return r.from.x
}

// after is where, along the piece i, the line goes on.
func (r *route) after(i int) float64 {
	if i < len(r.uses)-1 {
		return r.uses[i+1].middle()
	}
	if r.to.inner {
		return r.to.box.Y + r.to.box.Rect.Height/2
	}
	return r.to.x
}

func (u *use) middle() float64 { return u.of.at + u.of.size()/2 }

// points are the corners of the way.
func (r *route) points() []Point {
	var ps []Point
	add := func(p Point) {
		n := len(ps)
		switch {
		case n > 0 && ps[n-1] == p:
		case n > 1 && (ps[n-2].X == ps[n-1].X && ps[n-1].X == p.X || ps[n-2].Y == ps[n-1].Y && ps[n-1].Y == p.Y):
			ps[n-1] = p // it goes on straight
		default:
			ps = append(ps, p)
		}
	}
	uses := r.uses
	var x, y float64
	horizontal := true
	if r.from.inner {
		x, horizontal = uses[0].place(), true
		y = r.from.box.Y + r.from.box.Rect.Height/2
		add(Point{r.from.box.X, y})
		add(Point{x, y})
		uses = uses[1:]
	} else {
		x, y = r.from.x, r.from.y()
		add(Point{x, y})
	}
	for _, u := range uses {
		if horizontal {
			y = u.place()
		} else {
			x = u.place()
		}
		add(Point{x, y})
		horizontal = !horizontal
	}
	if r.to.inner {
		add(Point{x, r.to.box.Y + r.to.box.Rect.Height/2})
		add(Point{r.to.box.X, r.to.box.Y + r.to.box.Rect.Height/2})
		return ps
	}
	add(Point{r.to.x, y})
	add(Point{r.to.x, r.to.y()})
	return ps
}

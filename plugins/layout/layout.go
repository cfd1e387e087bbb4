package layout

import "math"

// Box is what is to be placed.
type Box struct {
	ID string
	// Parent is the box that this one is in; empty or unknown: none. It comes before.
	Parent string
	// Width and Height are what the box needs for itself, in pixels: of a container, what
	// its title needs.
	Width, Height float64
	// Break has a row begin with the box.
	Break bool
}

// Line leads from one box to another. It has no points if an end is unknown, or both are one.
type Line struct{ From, To string }

// Point is a place of the drawing, in pixels from its left upper corner.
type Point struct{ X, Y float64 }

// Rect is where a box is.
type Rect struct{ X, Y, Width, Height float64 }

// Drawing is where all is.
type Drawing struct {
	Width, Height float64
	// Boxes are in the order of those that were given, and so are lines.
	Boxes []Rect
	// Lines are polylines of horizontal and vertical pieces.
	Lines [][]Point
}

// Measures, in pixels.
const (
	gap      = 14.0 // of a channel or a margin without lines, and between the boxes of a row
	laneGap  = 6.0
	lanesMax = 24
	// Up to this width boxes stand in one row.
	minWidth = 760.0
	// How much wider than high a drawing is to be, and each container.
	aspect = 1.7
)

// node is a box in the making.
type node struct {
	Box
	Rect
	index    int
	parent   *node
	depth    int
	children []*node
	row      int // of its parent
	rows     [][]*node
	channels []track // one more than rows
	left     track
	right    track
	ports    [2][]*end // up and down
}

// Place lays out. Identifiers are unique; of two that are equal the first counts.
func Place(boxes []Box, lines []Line) Drawing {
	root := &node{}
	all := make([]*node, len(boxes))
	byID := make(map[string]*node, len(boxes))
	for i, b := range boxes {
		n := &node{Box: b, index: i, parent: root}
		if p := byID[b.Parent]; p != nil && b.Parent != "" {
			n.parent = p
		}
		n.depth = n.parent.depth + 1
		n.parent.children = append(n.parent.children, n)
		all[i] = n
		if byID[b.ID] == nil {
			byID[b.ID] = n
		}
	}
	// Rows are those of a drawing without lines. What lines cross is known from it as well,
	// and so how many run side by side; then the room for them is made.
	root.fill(true)
	root.put(0, 0)
	routes := make([]*route, len(lines))
	for i, l := range lines {
		if from, to := byID[l.From], byID[l.To]; from != nil && to != nil && from != to {
			routes[i] = lead(from, to)
		}
	}
	settle(routes, all)
	root.measure()
	root.fill(false)
	root.put(0, 0)
	settle(routes, all)

	d := Drawing{Width: root.Rect.Width, Height: root.Rect.Height, Boxes: make([]Rect, len(all)), Lines: make([][]Point, len(lines))}
	for i, n := range all {
		d.Boxes[i] = n.Rect
	}
	for i, r := range routes {
		if r != nil {
			d.Lines[i] = r.points()
		}
	}
	return d
}

// fill gives a box its size, from the inside out; rows are made if they are not there yet.
func (n *node) fill(rows bool) {
	if len(n.children) == 0 {
		n.Rect.Width, n.Rect.Height = n.Box.Width, n.Box.Height
		return
	}
	area, widest := 0.0, 0.0
	for _, c := range n.children {
		c.fill(rows)
		area += (c.Rect.Width + gap) * (c.Rect.Height + gap)
		widest = max(widest, c.Rect.Width)
	}
	if rows {
		// Steps, so that one more box does not set all rows anew.
		n.wrap(max(widest, minWidth, math.Exp2(math.Ceil(math.Log2(area*aspect))/2)))
	}
	n.Rect.Width, n.Rect.Height = n.Box.Width, n.Box.Height+n.channels[0].size()
	for r, row := range n.rows {
		width, height := -gap, 0.0
		for _, c := range row {
			width += c.Rect.Width + gap
			height = max(height, c.Rect.Height)
		}
		n.Rect.Width = max(n.Rect.Width, width)
		n.Rect.Height += height + n.channels[r+1].size()
	}
	n.Rect.Width += n.left.size() + n.right.size()
}

// wrap sets the children into rows.
func (n *node) wrap(limit float64) {
	width := 0.0
	for _, c := range n.children {
		if len(n.rows) == 0 || c.Break || width+gap+c.Rect.Width > limit {
			n.rows, width = append(n.rows, nil), -gap
		}
		c.row = len(n.rows) - 1
		n.rows[c.row] = append(n.rows[c.row], c)
		width += gap + c.Rect.Width
	}
	n.channels = make([]track, len(n.rows)+1)
}

// put gives what is in a box its place.
func (n *node) put(x, y float64) {
	n.X, n.Y = x, y
	if len(n.children) == 0 {
		return
	}
	n.left.at = x
	n.right.at = x + n.Rect.Width - n.right.size()
	y += n.Box.Height
	for r, row := range n.rows {
		n.channels[r].at = y
		y += n.channels[r].size()
		at, height := x+n.left.size(), 0.0
		for _, c := range row {
			c.put(at, y)
			at += c.Rect.Width + gap
			height = max(height, c.Rect.Height)
		}
		y += height
	}
	n.channels[len(n.rows)].at = y
}

// measure makes room for as many lines as were found side by side.
func (n *node) measure() {
	for _, c := range n.children {
		c.measure()
	}
	for i := range n.channels {
		n.channels[i].measure()
	}
	n.left.measure()
	n.right.measure()
}

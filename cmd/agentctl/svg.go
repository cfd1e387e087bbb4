package main

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/plumb-net/plumb/plugins/api/apiv1"
)

// Measures of a drawing, in pixels. The font has a fixed width.
const (
	svgLetter = 7
	svgBox    = 36 // height of a box
	svgRow    = svgBox + 16
	svgGap    = 70 // between columns
	svgMargin = 10
)

// box is a node with its place.
type box struct {
	*apiv1.GraphNode
	needs   []*box
	column  int
	visited bool
	row     float64 // in its column, for the order
	x, y, w int
}

// writeSVG draws the graph for a browser: what needs to the left of what is needed.
func writeSVG(w io.Writer, g *apiv1.GraphResponse) {
	boxes := map[string]*box{}
	var columns [][]*box
	for _, n := range g.Nodes {
		boxes[n.Key] = &box{GraphNode: n, w: svgLetter*max(len(n.Key), len(n.State)) + 16}
	}
	for _, e := range g.Edges {
		if from, to := boxes[e.From], boxes[e.To]; from != nil && to != nil && from != to {
			from.needs = append(from.needs, to)
		}
	}
	order := byNeeds(g, boxes)
	for _, b := range order {
		for len(columns) <= b.column {
			columns = append(columns, nil)
		}
		columns[b.column] = append(columns[b.column], b)
	}
	width, height := place(columns)
	fmt.Fprintf(w, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"monospace\" font-size=\"11\">\n", width, height)
	fmt.Fprintln(w, `<defs><marker id="to" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z"/></marker></defs>`)
	for _, e := range g.Edges {
		if from, to := boxes[e.From], boxes[e.To]; from != nil && to != nil {
			writeLine(w, e, from, to)
		}
	}
	for _, b := range order {
		fmt.Fprintf(w, "<g><title>%s</title><rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"4\" fill=\"%s\" stroke=\"black\"/>", escape(b.Key+" is "+b.State), b.x, b.y, b.w, svgBox, fill(b.State))
		for i, text := range []string{b.Key, b.State} {
			fmt.Fprintf(w, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">%s</text>", b.x+b.w/2, b.y+15+14*i, escape(text))
		}
		fmt.Fprintln(w, "</g>")
	}
	fmt.Fprintln(w, "</svg>")
}

// byNeeds gives each box the column after all that need it, circles aside, and returns
// all, those that need before those that they need.
func byNeeds(g *apiv1.GraphResponse, boxes map[string]*box) (order []*box) {
	var visit func(b *box)
	visit = func(b *box) {
		if b.visited {
			return
		}
		b.visited = true
		for _, to := range b.needs {
			visit(to)
		}
		order = append(order, b)
	}
	for _, n := range g.Nodes {
		visit(boxes[n.Key])
	}
	slices.Reverse(order)
	at := map[*box]int{}
	for i, b := range order {
		at[b] = i
	}
	for _, b := range order {
		for _, to := range b.needs {
			if at[to] > at[b] { // else it closes a circle
				to.column = max(to.column, b.column+1)
			}
		}
	}
	return order
}

// place orders each column by the places of what needs its boxes, and returns the size of
// the drawing.
func place(columns [][]*box) (width, height int) {
	for c, column := range columns {
		if c == 0 {
			slices.SortFunc(column, func(a, b *box) int { return strings.Compare(a.Key, b.Key) })
		}
		slices.SortStableFunc(column, func(a, b *box) int { return cmp.Compare(a.row, b.row) })
		wide := 0
		for i, b := range column {
			b.x, b.y, b.row = svgMargin+width, svgMargin+i*svgRow, float64(i)
			wide = max(wide, b.w)
			height = max(height, b.y+svgBox+svgMargin)
			for _, to := range b.needs {
				if to.column > c {
					to.row = (to.row + float64(i)) / 2
				}
			}
		}
		width += wide + svgGap
	}
	return max(width-svgGap, 0) + 2*svgMargin, max(height, 2*svgMargin)
}

func writeLine(w io.Writer, e *apiv1.GraphEdge, from, to *box) {
	dash := ""
	switch {
	case e.Derived:
		dash = ` stroke-dasharray="2 3"`
	case !e.Satisfied:
		dash = ` stroke-dasharray="6 4"`
	}
	x1, y1, x2, y2 := from.x+from.w, from.y+svgBox/2, to.x, to.y+svgBox/2
	fmt.Fprintf(w, "<path d=\"M%d %dC%d %d %d %d %d %d\" fill=\"none\" stroke=\"black\"%s marker-end=\"url(#to)\"><title>%s</title></path>\n",
		x1, y1, x1+svgGap/2, y1, x2-svgGap/2, y2, x2, y2, dash, escape(e.Why))
}

func escape(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // writes to a Builder do not fail
	return b.String()
}

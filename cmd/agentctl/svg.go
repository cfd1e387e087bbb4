package main

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/plumb-net/plumb/plugins/api/apiv1"
	"github.com/plumb-net/plumb/plugins/layout"
)

// Measures of a drawing, in pixels. The font has a fixed width.
const (
	svgLetter = 7
	svgBox    = 36 // height of a box, or of the title of one that has others in it
)

// box is a node of the drawing. What is derived stands in the box of its base.
type box struct {
	*apiv1.GraphNode
	base    *box
	needs   []*box // of boxes that are in no other
	layer   int
	visited bool
	order   float64 // in its layer
}

// outermost is the box around all that b is in.
func (b *box) outermost() *box {
	for b.base != nil {
		b = b.base
	}
	return b
}

// writeSVG draws the graph for a browser: what needs above what is needed.
func writeSVG(w io.Writer, g *apiv1.GraphResponse) {
	boxes := map[string]*box{}
	for _, n := range g.Nodes {
		boxes[n.Key] = &box{GraphNode: n}
	}
	for _, e := range g.Edges {
		from, to := boxes[e.From], boxes[e.To]
		if e.Derived && from != nil && to != nil && to.outermost() != from {
			from.base = to
		}
	}
	var lines []layout.Line
	var edges []*apiv1.GraphEdge
	for _, e := range g.Edges {
		from, to := boxes[e.From], boxes[e.To]
		if from == nil || to == nil || from.base == to {
			continue
		}
		edges, lines = append(edges, e), append(lines, layout.Line{From: e.From, To: e.To})
		if from, to = from.outermost(), to.outermost(); from != to {
			from.needs = append(from.needs, to)
		}
	}
	nodes := inLayers(g, boxes)
	places := make([]layout.Box, len(nodes))
	for i, b := range nodes {
		places[i] = layout.Box{ID: b.Key, Width: float64(svgLetter*max(len(b.Key), len(b.State)) + 16), Height: svgBox}
		if b.base != nil {
			places[i].Parent = b.base.Key
		} else {
			places[i].Break = i > 0 && b.layer != nodes[i-1].outermost().layer
		}
	}
	d := layout.Place(places, lines)

	fmt.Fprintf(w, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%g\" height=\"%g\" font-family=\"monospace\" font-size=\"11\">\n", d.Width, d.Height)
	fmt.Fprintln(w, `<defs><marker id="to" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z"/></marker></defs>`)
	for i, b := range nodes {
		r := d.Boxes[i]
		fmt.Fprintf(w, "<g><title>%s</title><rect x=\"%g\" y=\"%g\" width=\"%g\" height=\"%g\" rx=\"4\" fill=\"%s\" stroke=\"black\"/>", escape(b.Key+" is "+b.State), r.X, r.Y, r.Width, r.Height, fill(b.State))
		for i, text := range []string{b.Key, b.State} {
			fmt.Fprintf(w, "<text x=\"%g\" y=\"%g\">%s</text>", r.X+8, r.Y+15+14*float64(i), escape(text))
		}
		fmt.Fprintln(w, "</g>")
	}
	for i, ps := range d.Lines {
		if ps != nil {
			writeLine(w, edges[i], ps)
		}
	}
	fmt.Fprintln(w, "</svg>")
}

// inLayers gives each box the layer below all that need it, circles aside, and returns all
// by their layers, each followed by what is in it.
func inLayers(g *apiv1.GraphResponse, boxes map[string]*box) (all []*box) {
	var order []*box
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
	within := map[*box][]*box{}
	for _, n := range g.Nodes {
		if b := boxes[n.Key]; b.base == nil {
			visit(b)
		} else {
			within[b.base] = append(within[b.base], b)
		}
	}
	slices.Reverse(order)
	at := map[*box]int{}
	for i, b := range order {
		at[b] = i
	}
	for _, b := range order {
		for _, to := range b.needs {
			if at[to] > at[b] { // else it closes a circle
				to.layer = max(to.layer, b.layer+1)
			}
		}
	}
	var layers [][]*box
	for _, b := range order {
		for len(layers) <= b.layer {
			layers = append(layers, nil)
		}
		layers[b.layer] = append(layers[b.layer], b)
	}
	var add func(b *box)
	add = func(b *box) {
		all = append(all, b)
		for _, c := range within[b] {
			add(c)
		}
	}
	for l, layer := range layers {
		if l == 0 {
			slices.SortFunc(layer, func(a, b *box) int { return strings.Compare(a.Key, b.Key) })
		}
		slices.SortStableFunc(layer, func(a, b *box) int { return cmp.Compare(a.order, b.order) })
		for i, b := range layer {
			for _, to := range b.needs {
				if to.layer > l {
					to.order = (to.order + float64(i)) / 2
				}
			}
			add(b)
		}
	}
	return all
}

func writeLine(w io.Writer, e *apiv1.GraphEdge, ps []layout.Point) {
	dash := ""
	if !e.Satisfied && !e.Derived {
		dash = ` stroke-dasharray="6 4"`
	}
	var path strings.Builder
	for i, p := range ps {
		fmt.Fprintf(&path, "%c%g %g", "ML"[min(i, 1)], p.X, p.Y)
	}
	fmt.Fprintf(w, "<path d=\"%s\" fill=\"none\" stroke=\"black\"%s marker-end=\"url(#to)\"><title>%s</title></path>\n", path.String(), dash, escape(e.Why))
}

func escape(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // writes to a Builder do not fail
	return b.String()
}

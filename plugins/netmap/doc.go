// Package netmap draws the network as people think of it: namespaces and containers as
// boxes, interfaces in them with their addresses, what belongs to a namespace beside them,
// and between interfaces cables, masters and parents. It is pure: statuses go in, and boxes
// with places and lines with points come out.
//
//	statuses ─► Draw ─► places (where is each key?) ─► layout ─► Map
//
// It takes statuses of now, of a time in the history, or as a plan would leave them, which
// are of one form; so there is one way to draw them.
package netmap

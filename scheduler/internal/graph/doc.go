// Package graph holds, for every key, what is desired, what is actual and what
// it needs, and keeps count of what is satisfied.
//
// The graph is pure: it does no I/O, knows no time and calls nothing but the
// functions of kinds and needs. One goroutine owns it.
//
//	        Desired, Actual, Meta               Out: what this node needs
//	Node ──────────────────────── Edge ──► Node
//	                                            In: who needs this node
//
// An edge belongs to the desired value, to the actual one, or to both. Those of
// the desired value decide whether a node may be created (Missing, Unsure);
// those of the actual value decide whether the needed node may go (Dependents).
// Both are counters, so one change costs what it touches and no more.
//
//	phase.go    what is being done to a node: idle, queued, reading, operating, overdue
//	hold.go     whether nothing is tried on it for now, and until when
//	change.go   a value in place that is about to become another
//	needs.go    values and their needs
//	met.go      how a need is met, and by what
//	cycles.go   needs that are met, and what depends on what, form no cycle: the owner of
//	            such an edge has a higher level than its target
//	unit.go     nodes that need each other together are met as one, or not at all
//	claim.go    names that only one value may have, and who has them
//	built.go    with which part of what it needs a thing was made
//	journal.go  what is done within Try is taken back
//
// With [Graph.Try] all changes are journalled and taken back afterwards: that
// is how plans are made on the very graph that execution uses.
package graph

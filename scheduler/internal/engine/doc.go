// Package engine changes the graph: it takes in what is wanted, what reads found and how
// operations ended, evaluates every node that is touched by it, and lets begin what is due.
//
//	Edit ────┐                                   ┌─► Outside.Begin      an operation
//	reads ───┼─► graph ─► SettleDirty ─► assess ─┼─► Outside.QueueLook  a read
//	Settle ──┘   (dirty nodes)                   └─► Outside.Touch      who follows the node
//
// It does no I/O and knows no goroutine: one owns it. What follows from its decisions goes
// to its Outside, which is the scheduler's loop, or a preview.
package engine

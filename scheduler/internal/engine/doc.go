// Package engine changes the graph: it takes in what is wanted, what reads found and how
// operations ended, evaluates every node that is touched by it, and lets begin what is due.
//
//	Edit ────┐                                   ┌─► Outside.Begin      an operation
//	reads ───┼─► graph ─► SettleDirty ─► assess ─┼─► Outside.QueueLook  a read
//	Settle ──┘   (dirty nodes)                   └─► Outside.Touch      who follows the node
//
// It does no I/O and knows no goroutine: one owns it. What follows from its decisions goes
// to its Outside, which is the scheduler's loop, or a preview.
//
// A few words have more than one use:
//
//	held     nothing is tried on the node for now: graph.Hold, set by hold and noteFailure.
//	         An operator's hold is a pause (Frozen); who actually has a claim is its holder.
//	         HoldDown is the policy by which what went is not yet believed to have gone.
//	settle   Settle takes in an outcome. SettleDirty evaluates until nothing is left to.
//	         A key is settled when nothing that is under way or due can change it.
//	unread   Kind.Unread: a node is not known until all of its kind is read. UnreadNodes: those
//	         that the first read of their kind told nothing of. Assessor.Unread: either.
//	stale    built with something that has changed since (FlagStale); not: read long ago, which
//	         is AsLastSeen.
//	adopt    FlagAdopted: ours, but found and not made by this process. AdoptNeeds: the actual value
//	         has the needs of what is desired. What others made is not adopted but taken (Taken).
//	leave    Leaving: the node has to go. Left: somebody else changed it, and it stays so.
package engine

// Package scheduler keeps the actual state of keyed things as desired.
//
// A key names a thing. A [Descriptor] knows one kind of thing: how to create,
// update, delete and find it, and what it needs. Sources say with [Txn.Want]
// what should be; [Txn.Look] says that the actual state may have changed.
// Everything that ever happens is one of the two:
//
//	an operator writes a key        Want{key: value}
//	a source lists all its keys     Want{...}, Complete
//	the kernel reports a change     Look{key}: the event only names the key, the actual state is read
//	a retry is due                  Look{key}, then go on: first see what the failure left behind
//	a kind is registered late       Look{prefix}
//	a preview                       Want on the same graph, rolled back by a journal
//	a plan that is executed         Want; outcomes count in the plan's order
//
// # Overview
//
//	sources ──Want──┐                       ┌── status watchers
//	                ▼                       │
//	events ──Look─► loop ── edit ─► graph ─► assess ─► ready operations
//	                ▲                                      │
//	                └───────── outcomes ◄── workers ◄──────┘
//
// The loop owns the graph and never does I/O. It is run by one goroutine at a
// time: that of Run, or that of whoever has just brought an input and would only
// wait for the answer. Operations run on workers; their outcomes come back as
// inputs of the loop. So a hanging operation delays only what needs its key, and
// the order of operations is a pure function of the order of inputs.
//
// # Packages
//
// This package is what embedders see, and the loop. Below it, and each knowing only those
// further down: plan (previews and their execution), explain (reasons and causes in words),
// internal/engine (takes in what is wanted, read and done), internal/assess (what follows
// for one key), internal/kind (calls descriptors), internal/graph (keys and what they need),
// history (what happened), internal/exec (runs operations) and kv (types that all share,
// which this package has under the same names).
//
// # Contracts
//
// All functions and methods may be called from any goroutine, but one at a time
// reads a Watcher or a Follower. Submit never waits; Apply, Handle.Wait,
// Watcher.Next and Follower.Next wait until they have an answer or their context
// ends; Run works until its own ends; Inspect reads the actual state itself; WaitForSources and
// WaitForKinds wait for these. All others
// wait for the loop only, which never waits for I/O: they look at their context
// between parts of a long answer, or not at all.
//
// Functions of a descriptor that are called pure run in the loop and must not call
// the scheduler. Several goroutines use Options.Clock at once, and Options.Rand one at
// a time.
//
// Errors of operations never end anything: they become the state of their key.
// Errors that are returned tell of misuse, of what changed meanwhile or is not kept, or of the
// end: [ErrStopped], [ErrUnknownSource], [ErrUnknownKey], [ErrNotPaused], [ErrNotHeldBack],
// [ErrBaseMoved], [ErrTooLarge], [ErrBusy], [ErrWatcherStopped], [*HistoryError]; or they say
// in words what to mend.
//
// Beside these packages it imports only the standard library.
package scheduler

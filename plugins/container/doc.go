// Package container tracks the containers of a host, whatever runtime runs them.
//
// A [Runtime] lists and inspects containers and passes on events. Events are
// only hints that a container may have changed: they may be lost, doubled,
// late or out of order. What counts is what list and inspect say, and what the
// kernel says of the container's process.
//
//	Events ──hint(id)──┐
//	                   ▼
//	List ───────────► loop ──► inspect jobs ──► open the process, verify it
//	(after each        ▲             │
//	subscription,      └── result ───┘
//	then now and       ▲
//	again)             └── the process ended (pidfd)
//	                   │
//	                   ▼
//	                picture ──► readers, watchers
//
// One goroutine, the loop, owns all that is known. It never waits for a
// runtime: lists and inspects are jobs with a deadline. After each round it
// publishes a picture that never changes; readers get copies of it.
//
// Not knowing is not the same as there being none. A runtime that does not
// answer leaves the containers whose process lives as they are; of the rest
// nothing is said.
package container

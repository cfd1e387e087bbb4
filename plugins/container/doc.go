// Package container tracks the containers of a host, whatever runtime runs them.
//
// A [Runtime] lists and inspects containers and passes on events. Events are
// only hints that a container may have changed: they may be lost, doubled,
// late or out of order. What counts is what list and inspect say, and what the
// kernel says of the container's process.
//
//	Events ──hint──┐
//	               ▼
//	List ───────► loop ──► inspect jobs ──► open the process, verify it
//	(after each    ▲             │
//	subscription,  └── result ───┘
//	then now and   ▲
//	again)         ├── the process ended (pidfd)
//	               ├── a kill for want of memory (ReportOOM)
//	               ▼
//	            snapshot ──► readers, watchers, who waits
//	               │
//	            events ──► observer
//
// One goroutine, the loop, owns all that is known. It never waits for a
// runtime: lists and inspects are jobs with a deadline. After each round it
// publishes a snapshot that never changes; readers get copies of it. Then it
// tells what happened, so who is told of something finds it in the snapshot.
//
// How far the runs of each container are says the pure package lifecycle. A run
// is known by its start, its process and its namespace, so a restart under the
// same id is a death and a start. Apart from that is what was told of a
// container, and what it takes to tell on: its chronicle (chronicle.go). What no
// inspect saw is told by what the hints said of it (evidence.go); that goes into
// the events alone, never into the snapshot.
//
// Not knowing is not the same as there being none. A runtime that does not
// answer leaves the containers whose process lives as they are; of the rest
// nothing is said.
package container

// Package events keeps what happened to containers and to the agent, for those
// who ask later and those who watch.
//
//	tracker ──► Add ──► log in memory ──┬─► Query, newest first to be counted
//	                    bounded by age, ├─► watchers, each with its place in it
//	                    count and bytes └─► Run: a file in the state directory
//
// Every event has a number; the numbers, never a clock, give the order and the
// place to go on from. Whoever reads has nothing of its own but that place, so
// a reader that is slow or dead costs nothing and holds up nobody: when it
// comes back and what it would read next has gone, it is told so by a [Gap],
// and goes on with what there is. The file is written by one more such reader.
package events

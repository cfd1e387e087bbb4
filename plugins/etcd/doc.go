// Package etcd ties the agent to its store: intent comes out of it, status
// goes into it. Packages below it are the only importers of the etcd client and
// server; package dial is how others, that look at many agents, come to etcd.
//
// The store is a cluster named by endpoints, or a server embedded in this
// process (package embedded). Below /plumb/<label>/ it holds
//
//	config/<kind>/<name>   what operators want           source.go reads it
//	author/<id>            who wrote it, and why         author.go
//	status/<kind>/<name>   how things stand              status.go writes it
//	converged              up to where it was done       converged.go
//	agent                  who serves the label (lease)  presence.go
//	duplicate              who else wanted it (lease)    presence.go
//	store                  the store's random id         identity.go
//
// and what package fleet and its agents keep for each other; fleet.go is their way.
//
// # How intent comes in
//
//	┌────────────────────── session (source.go) ─────────────────────┐
//	│ 1 open a watch stream            watch.go                      │
//	│ 2 list, pinned to one revision   list.go                       │
//	│ 3 judge: is it the store we know?  identity.go                 │
//	│ 4 say what changed               changes.go ──► Submit         │
//	│ 5 follow from the next revision: one revision, one transaction │
//	└─────┬──────────────────────────────────────────────────────────┘
//	      └─ anything odd (cut, compacted, no leader, silent) ends the
//	         session, and the next one lists again
//
// Lost events therefore heal by themselves, and there is no state besides the
// view: which key was told to the scheduler at which revision.
//
// A store that is not the one we know (wiped, replaced, restored from an old
// snapshot) may wish for things, but what it does not hold is not withdrawn
// until an operator accepts it.
package etcd

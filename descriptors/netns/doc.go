// Package netns is the kind of named network namespaces, /run/netns/<name>.
//
// A namespace of ours is marked at its loopback, whose alias nobody else uses:
//
//	ledger entry ── crash ──► nothing there, or an empty namespace without mark
//	made         ── crash ──► the same; empty and in the ledger: ours
//	marked                ──► ours, even when the ledger is lost
//
// Names that others made are seen and satisfy needs; they are never taken over
// and never deleted.
package netns

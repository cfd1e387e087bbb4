// Package historylog keeps the scheduler's history in a file, so that it
// outlives the agent.
//
// A [Log] follows the history in a goroutine of its own and appends what is
// new, a line for each record that is new or has grown (see package linefile):
//
//	9a3c51f0 {"seq":7,"time":"2026-01-02T03:04:05Z","source":"etcd",…}
//
// The first line of a record says what was asked; later ones add steps and
// changes.
//
// Nothing waits for the disk: a slow one makes the log miss changes, which the
// next record says.
package historylog

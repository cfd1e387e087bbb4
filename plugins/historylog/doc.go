// Package historylog keeps the scheduler's history in a file, so that it
// outlives the agent.
//
// A [Log] follows the history in a goroutine of its own and appends what is
// new, a line for each record that is new or has grown. A line is a checksum
// and a record:
//
//	9a3c51f0 {"seq":7,"time":"2026-01-02T03:04:05Z","source":"etcd",…}
//
// The first line of a record says what was asked; later ones add steps and
// changes. When the file has grown to half of what is allowed it becomes
// history.1, in place of the one before, and a new one is begun.
//
// Nothing waits for the disk: a slow one makes the log miss changes, which the
// next record says. A line that was cut short by a crash, or that is damaged,
// is left out when the file is read.
package historylog

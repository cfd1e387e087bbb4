// Package agent is the composition root: the only place where concrete types
// meet.
//
//	config.go   what can be set, from flags, environment and file
//	wire.go     who is given what
//	run.go      who runs, and who stops in which order
//	once.go     plumb-agent --once
//	cleanup.go  plumb-agent cleanup
//	locks.go    one agent per label and state directory
//	notify.go   what the service manager is told
package agent

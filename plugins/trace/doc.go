// Package trace sends what transactions did to a collector of OpenTelemetry.
//
// A [Tracer] follows the history in a goroutine of its own, as package historylog
// does. Of each transaction that did something it makes one trace:
//
//	transaction etcd     from when it was written until it came to rest
//	  store              until the agent learned of it
//	  create interface   one operation
//	  create route       another
//
// A transaction that goes on after it was sent, as when something is tried again, is
// sent once more, with a link to the first trace.
//
// Nothing waits for the collector: the history is the queue. What it lets go before
// the collector took what came earlier is in no trace.
package trace

// Package proxy is the kind of forwarders between network namespaces.
//
// A proxy is a process that goes on when the agent ends. The ledger names it before it
// serves anybody, by its number, its start time and its mark, and by the namespaces of both
// ends as they were then. What it does the process itself is asked; so after a crash in the
// middle of a change what is read is what is so. It belongs to no namespace: it is a process
// of the host, and its entry in the ledger has none.
//
// Where it listens, and in which namespaces, is decided when it is born; where it forwards
// to within the namespace, how many clients it takes and who may use its socket file are
// changed while it runs, and its connections stay.
package proxy

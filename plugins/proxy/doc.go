// Package proxy is the processes that forward between network namespaces.
//
// One process serves one proxy. It is made of the same program as the agent, in a session
// of its own, and goes on when the agent ends:
//
//	agent                                       process
//	listens in one namespace ── socket ──────►  accepts
//	enters the other, without capabilities ──►  is born there, connects
//	records it, and only then ── order ──────►  begins; without an order it ends
//	asks and changes it ────── control ──────►  <run-dir>/proxies/…
//
// So the process needs no right to enter a namespace, and its files are these: what it
// listens at, control, and the processes that the namespaces belong to, with which it
// ends. What a crash of the agent leaves is a process that the ledger names, or none.
//
//	agent    proxies    the port: start, read, set, stop, watch
//	         start      a process is born
//	         listen     what it listens at, and who else does
//	         process    how one is known again
//	both     control    what they say to each other
//	process  child      its life
//	         streams    connections of tcp and unix
//	         datagrams  clients of udp
package proxy

// Package qdisc is the kind of queueing disciplines at the roots of interfaces.
//
// The kernel keeps one of them for each link, and in the place of none its own, which has no
// handle. Ours have the agent's handle and are in the ledger; what has another handle is
// another's and stays. One of the same type is changed in place, and keeps what waits in it.
//
//	words       values as the kernel has them, and back
//	descriptor  the kind
//	make        set, changed, taken over and removed
//	read        read, and what events say
//	survey      those that others set
package qdisc

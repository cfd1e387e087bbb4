// Package mirror is the kind of copies of traffic.
//
// A value is a filter for each direction, at the hook of the interface (clsact), which mirrors
// all packets and leaves them to all other filters. A filter bears the digest of its key; only
// those that do are ever removed. The hook itself bears no mark and is everybody's: if it is not
// there it is made, the ledger notes that, and it goes when no filter of anybody is at it.
//
//	descriptor  the kind
//	make        made and removed
//	read        read, and what events say
package mirror

// Package ipam is the kinds by which addresses are handed out:
//
//	ippool    a network, as an operator wrote it
//	iplease   what a pool has for a claim that asks: an address, or why there is none; observed
//	ipclaim   an address in use: a claim that has taken its lease
//
// A claim needs its lease as an interface needs its container. The pool gives, and
// changes its mind when it must: it shrinks, or has other addresses reserved. Then the
// lease is seen to be another, and by the scheduler's law the addresses and routes that
// were built with the claim leave first, then the claim frees the old address, then it
// takes the new one. So no address is ever in two places.
//
// Who may have which address is decided in the package pool. The [Book] keeps what
// must outlive the process in a ledger of its own, written ahead: an address is in
// it before anybody uses it, and until nobody does any more.
package ipam

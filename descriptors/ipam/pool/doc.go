// Package pool hands out the addresses of one network. It is pure: no I/O, no
// locks, no clock; the same calls in the same order give the same answers.
//
// A claim asks for any address, or for a certain one. What it gets is its lease.
// When it takes the lease the address is in use; what is in use is nobody else's
// until it is freed:
//
//	Ask ──► lease: an address, or why there is none ──► Take ──► in use ──► Free ──► rests
//
// Who uses an address keeps it, whoever asks for it; it loses it only if the pool
// changes so that it may not have it any more. Of an address that is merely leased to
// one that asks for any, who asks for that very address is stronger: the lease of the
// former becomes another one. Between two who ask for the same address whoever uses it
// has it; who of them may take it is not decided here.
//
// Addresses are given in rising order, those that were never used first. What was
// freed rests: the oldest is given again when nothing fresh is left, or when too
// many rest to be remembered. Of several who wait for an address the one with the
// smallest name gets it.
package pool

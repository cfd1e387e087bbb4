// Package pool hands out the addresses of one network. It is pure: no I/O, no
// locks, no clock; the same calls in the same order give the same answers.
//
// A claim asks for any address, or for a certain one. What it gets is its lease.
// When it takes the lease the address is in use; what is in use is nobody else's
// until it is freed:
//
//	Ask ──► lease: an address, or why there is none ──► Take ──► in use ──► Free ──► rests
//
// Who asks for a certain address is stronger than who asks for any: the lease of
// the latter becomes another address, and once it has freed the first one, the
// former gets it. Between two who ask for the same address whoever uses it has it;
// who of them may take it is not decided here.
//
// Addresses are given in rising order, those that were never used first. What was
// freed rests: the oldest is given again when nothing fresh is left, or when too
// many rest to be remembered. Of several who wait for an address the one with the
// smallest name gets it.
package pool

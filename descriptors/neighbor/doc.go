// Package neighbor is the kind of neighbors that are set by hand.
//
// The kernel knows a neighbor by its link and address. Ours are permanent and carry the
// agent's protocol number, as routes do, but the kernel keeps the number when somebody
// else gives the neighbor another hardware address: what is ours is in the ledger, and the
// number tells only that nobody has put one of his own in its place.
package neighbor

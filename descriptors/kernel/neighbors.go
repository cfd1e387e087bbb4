package kernel

import "net/netip"

// Neighbors are those of the links of a namespace that somebody has set.
type Neighbors interface {
	// Neighbors are those of all links that somebody has set: they are permanent. What
	// the kernel has learnt is not among them.
	Neighbors(ns NS) ([]Neighbor, error)
	// Neighbor is the permanent one of that link and address; ErrNotExist if there is
	// none.
	Neighbor(ns NS, index int, a netip.Addr) (Neighbor, error)
	// AddNeighbor makes a permanent neighbor, also in the place of one that the kernel
	// has learnt. A permanent one at its address is ErrExist, whatever it holds.
	AddNeighbor(ns NS, n Neighbor) error
	ReplaceNeighbor(ns NS, n Neighbor) error
	// DeleteNeighbor removes the neighbor of that link and address.
	DeleteNeighbor(ns NS, n Neighbor) error
}

// Neighbor says which hardware address has an address on the network of a link.
type Neighbor struct {
	Index   int
	Address netip.Addr
	MAC     string // lower case; ignored by DeleteNeighbor
	// Protocol says who made it, as that of a route does; 0 unknown (Linux 5.2).
	Protocol uint8
}

package kernel

import (
	"net/netip"
	"slices"
)

// Nexthops are those that routes refer to by number (Linux 5.3).
//
// The kernel removes a nexthop with its link, and also when the link goes down or loses its
// carrier, without an event: neither of the nexthop, nor of the groups that have it no more
// or that go because they are empty, nor of the IPv4 routes that go with them. It brings
// none of them back. That of a blackhole stays when the loopback goes down, but it can be
// made only while that is up.
type Nexthops interface {
	// Nexthops of a namespace by number, whoever made them.
	Nexthops(ns NS) ([]Nexthop, error)
	// AddNexthop never replaces: a nexthop of that number is ErrExist.
	AddNexthop(ns NS, n Nexthop) error
	// ReplaceNexthop puts it in the place of the one of its number, in one step and with
	// all the routes and groups that refer to it. A group takes the place only of a group.
	ReplaceNexthop(ns NS, n Nexthop) error
	// DeleteNexthop removes the nexthop of that number, with the routes that refer to it.
	// It goes from the groups that have it.
	DeleteNexthop(ns NS, id uint32) error
}

// Nexthop is where packets go next: by a link, nowhere, or to one of a group.
type Nexthop struct {
	ID        uint32
	Protocol  uint8 // who made it, as that of a route does
	IPv6      bool  // false for a group
	Index     int   // 0 of a group, and of a blackhole
	Gateway   netip.Addr
	Onlink    bool
	Encap     Encap
	Blackhole bool
	Group     []NexthopMember // in the order of the kernel
	// More: it says something that is not here, such as that the group is resilient.
	More bool
}

// NexthopMember is a nexthop of a group.
type NexthopMember struct {
	ID     uint32
	Weight int
}

// Equal reports whether two nexthops are the same in all that is known of them.
func (n Nexthop) Equal(o Nexthop) bool {
	return n.ID == o.ID && n.Protocol == o.Protocol && n.IPv6 == o.IPv6 && n.Index == o.Index && n.Gateway == o.Gateway &&
		n.Onlink == o.Onlink && n.Encap == o.Encap && n.Blackhole == o.Blackhole && n.More == o.More && slices.Equal(n.Group, o.Group)
}

package kernel

import "net/netip"

// Announcements announce the MAC of an address to the neighbours of a link. Neighbours cache the
// MAC for minutes, and would otherwise send to the previous one.
type Announcements interface {
	// Announce sends one announcement for each address and returns one error for each:
	//   - ErrDown while no frame can leave, because the link has no carrier, or because the
	//     bridge port of the link or of its veth peer is not in the state forwarding;
	//   - ErrNotExist if the link does not exist, or the host does not accept packets to an
	//     IPv6 address;
	//   - ErrUnsupported if the network of the link does not resolve MACs.
	//
	// It waits briefly for a carrier that the kernel is still processing, and for an IPv6
	// address that has just been added. It does not check that the link has an IPv4 address.
	// It changes nothing and is not counted as a write.
	Announce(ns NS, as []Announcement) []error
}

// Announcement is an address of a link.
type Announcement struct {
	Index   int
	Address netip.Addr
	// Reply announces an IPv4 address by an ARP reply instead of a request. Some hosts process
	// only one of the two.
	Reply bool
}

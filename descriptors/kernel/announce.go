package kernel

import "net/netip"

// Announcements tell the neighbours of links which MAC has an address. Neighbours keep that
// for minutes, and would send to the MAC that had the address before.
type Announcements interface {
	// Announce sends one announcement for each of the addresses and returns the error of
	// each: ErrDown while no frame can leave, because the link has no carrier or the port of
	// a bridge behind it does not forward yet; ErrNotExist if the link has gone, or the host
	// does not accept packets to an IPv6 address; and ErrUnsupported if nobody on the network
	// of the link asks for MACs. It waits a moment for a carrier that is about to come, and
	// for an IPv6 address that has just been added. It does not check that the link has the
	// IPv4 address, changes nothing, and is not counted as a write.
	Announce(ns NS, as []Announcement) []error
}

// Announcement is an address of a link.
type Announcement struct {
	Index   int
	Address netip.Addr
	// Reply announces an IPv4 address by an ARP reply in place of a request: some hosts heed
	// only one of them.
	Reply bool
}

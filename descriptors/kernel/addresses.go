package kernel

import "net/netip"

// Addresses are those of the links of a namespace.
type Addresses interface {
	// Addresses of one link, or of all with index 0.
	Addresses(ns NS, index int) ([]Address, error)
	AddAddress(ns NS, a Address) error
	// AddAddresses adds many, in order, with fewer calls of the kernel, and returns the error
	// of each.
	AddAddresses(ns NS, as []Address) []error
	// ChangeAddress gives an address that is there other lifetimes, and what else can be
	// changed while it is there: who made it, and the metric; of IPv6 also whether there is a
	// route to the network, which is made again if it is missing.
	ChangeAddress(ns NS, a Address) error
	DeleteAddress(ns NS, a Address) error
	// DeleteAddresses removes many, in order, with fewer calls of the kernel, and returns the
	// error of each.
	DeleteAddresses(ns NS, as []Address) []error
}

// Address is an address of a link.
type Address struct {
	Index  int
	Prefix netip.Prefix // address and length, host bits kept
	// Peer is the other end's address, which the length is of then; invalid: none.
	Peer      netip.Addr
	Label     string
	Scope     int
	Valid     uint32 // seconds that are left, 0 for ever
	Preferred uint32 // seconds that are left, 0 as long as it is valid
	// A deprecated address is not preferred any more; Preferred says nothing of it.
	Deprecated bool
	// Age is how many seconds ago the lifetimes were set, of those that end. Ignored by
	// AddAddress and ChangeAddress.
	Age uint32
	// Protocol says who made it, 0 unknown, 1–3 the kernel (Linux 5.18).
	Protocol uint8
	// Kernel marks addresses that the kernel made (link-local, autoconf) or
	// whose lifetime a daemon runs: those with an end and no protocol of their
	// own. Ignored by AddAddress.
	Kernel    bool
	Secondary bool
	// Tentative: another host may have it too, for all that the kernel knows, or surely has
	// it. Ignored by AddAddress.
	Tentative bool
	// Duplicate: another host has it, so the kernel does not use it. Ignored by AddAddress.
	Duplicate bool
	// NoDetection: the kernel uses an IPv6 address without a detection of other hosts that
	// have it.
	NoDetection bool
	Broadcast   netip.Addr
	// Metric of the route to the network, 0 the kernel's.
	Metric uint32
	// NoPrefixRoute: the kernel makes no route to the network.
	NoPrefixRoute bool
}

// Network is what is on the link by the address: that of the peer, if it has one.
func (a Address) Network() netip.Prefix {
	if a.Peer.IsValid() {
		return netip.PrefixFrom(a.Peer, a.Prefix.Bits()).Masked()
	}
	return a.Prefix.Masked()
}

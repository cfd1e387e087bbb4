package kernel

import "net/netip"

// Addresses are those of the links of a namespace.
type Addresses interface {
	// Addresses of one link, or of all with index 0.
	Addresses(ns NS, index int) ([]Address, error)
	AddAddress(ns NS, a Address) error
	DeleteAddress(ns NS, a Address) error
}

// Address is an address of a link.
type Address struct {
	Index     int
	Prefix    netip.Prefix // address and length, host bits kept
	Label     string
	Scope     int
	Valid     uint32 // seconds, 0 for ever
	Preferred uint32
	// Protocol says who made it, 0 unknown, 1–3 the kernel (Linux 5.18).
	Protocol uint8
	// Kernel marks addresses that the kernel made (link-local, autoconf) or
	// whose lifetime a daemon runs: those with an end and no protocol of their
	// own. Ignored by AddAddress.
	Kernel    bool
	Secondary bool
	Broadcast netip.Addr
}

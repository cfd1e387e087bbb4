package kernel

import "net/netip"

// Encap is what a way puts packets into; the zero Encap is nothing.
type Encap struct {
	ID       uint32 // of the tunnel; a gre bears it as its key unless it is 0
	Dst, Src netip.Addr
	TTL, TOS uint8
	Checksum bool // of the outer packet
	// Labels of MPLS, the outermost first, as ip(8) writes them: 100/200. With TTL alone.
	Labels string
	// More: it says something that is not here, such as segments of IPv6.
	More bool
}

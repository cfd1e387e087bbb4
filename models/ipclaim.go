package models

import "net/netip"

// Wanted is the address that the claim asks for; zero if any will do.
func (x *IPClaim) Wanted() netip.Addr {
	a, _ := netip.ParseAddr(x.GetAddress())
	return a
}

func (x *IPClaim) check(f *findings) {
	checkName(x.Pool, KindIPPool, "pool", "an ippool", f)
	if x.Address == "" {
		return
	}
	if a, ok := parseIP(x.Address, "address", f); ok {
		checkUnicast(a, "address", f)
	}
}

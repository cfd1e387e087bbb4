package network

import (
	"net/netip"

	"github.com/plumb-net/plumb/plugins/cni/spec"
)

// unusable are the ranges in which no network of containers can be: packets from or to
// them are dropped, or never leave the link.
var unusable = []struct {
	prefix netip.Prefix
	is     string
}{
	{netip.MustParsePrefix("0.0.0.0/8"), "means this host and is in no packet"},
	{netip.MustParsePrefix("127.0.0.0/8"), "is each host's own loopback"},
	{netip.MustParsePrefix("169.254.0.0/16"), "is for one link alone and is not routed"},
	{netip.MustParsePrefix("224.0.0.0/4"), "is for multicast"},
	{netip.MustParsePrefix("255.255.255.255/32"), "is for broadcast"},
	{netip.MustParsePrefix("::/96"), "holds the unspecified address and loopback"},
	{netip.MustParsePrefix("::ffff:0:0/96"), "is IPv4 in the form of IPv6; write it as IPv4"},
	{netip.MustParsePrefix("fe80::/10"), "is for one link alone and is not routed"},
	{netip.MustParsePrefix("ff00::/8"), "is for multicast"},
}

// usable refuses a pool from which no container could have an address that works.
func usable(text string, s Subnet) *spec.Error {
	for _, u := range unusable {
		if Overlap(s.Prefix, u.prefix) {
			return spec.Invalid("pool: %s overlaps %s, which %s", text, u.prefix, u.is)
		}
	}
	if s.Prefix.IsSingleIP() && s.Prefix.Addr() == s.gateway {
		return spec.Invalid("pool: %s has one address, which is the gateway's; none is left for a container. A network of /%d or larger has some",
			text, s.Prefix.Bits()-1)
	}
	return nil
}

// Overlap reports whether two prefixes have an address in common. Unlike
// [netip.Prefix.Overlaps] it does not mind host bits.
func Overlap(a, b netip.Prefix) bool { return a.Masked().Overlaps(b.Masked()) }

package models

import (
	"net/netip"

	"google.golang.org/protobuf/proto"
)

// Copy is a copy that shares nothing.
func (x *Address) Copy() *Address { return proto.CloneOf(x) }

// EffectiveScope is the scope: scope, default global. IPv6 addresses have the
// scope that follows from the address, whatever is written.
func (x *Address) EffectiveScope() string { return orDefault(x.GetScope(), "global") }

// EffectivePreferredLifetime is for how many seconds the address is preferred;
// 0 is for ever. Its default is as long as the address is valid.
func (x *Address) EffectivePreferredLifetime() uint32 {
	return orDefault(x.GetPreferredLifetime(), x.GetValidLifetime())
}

// EffectivePrefixRoute is whether there is a route to the network of the address: prefix_route,
// default kernel.
func (x *Address) EffectivePrefixRoute() string { return orDefault(x.GetPrefixRoute(), "kernel") }

// EffectiveDuplicateDetection returns duplicate_detection, default kernel.
func (x *Address) EffectiveDuplicateDetection() string {
	return orDefault(x.GetDuplicateDetection(), "kernel")
}

func (x *Address) check(f *findings) {
	checkRef(x.Interface, "interface", "an interface", f)
	switch {
	case x.Address == "" && x.Claim == "":
		f.add("address", "must be given, such as 10.0.0.1/24, or claim")
	case x.Address != "" && x.Claim != "":
		f.add("claim", "not together with address; keep one")
	case x.Claim != "":
		if err := CheckName(x.Claim); err != nil {
			f.add("claim", "%v", err)
		}
	default:
		x.checkAddress(f)
	}
	if len(x.Label) > maxHostName {
		f.add("label", "has %d bytes; the kernel takes at most %d", len(x.Label), maxHostName)
	}
	if p, _ := netip.ParsePrefix(x.Address); x.PreferredLifetime > 0 && x.ValidLifetime == 0 && !p.Addr().Is6() {
		f.add("preferred_lifetime", "needs valid_lifetime; only IPv6 addresses that are valid for ever can be preferred for less")
	}
	if x.ValidLifetime > 0 && x.PreferredLifetime > x.ValidLifetime {
		f.add("preferred_lifetime", "%d is longer than valid_lifetime, %d", x.PreferredLifetime, x.ValidLifetime)
	}
	if x.Metric > 0 && x.EffectivePrefixRoute() == "none" {
		f.add("metric", "is that of the route to the network, which prefix_route leaves out; keep one")
	}
	x.checkPeer(f)
}

func (x *Address) checkAddress(f *findings) {
	p, ok := parseCIDR(x.Address, "address", f)
	if !ok {
		return
	}
	checkUnicast(p.Addr(), "address", f)
	if x.Label != "" && p.Addr().Is6() {
		f.add("label", "only IPv4 addresses have labels; leave it out")
	}
	if x.Position != 0 && p.Addr().Is6() {
		f.add("position", "only IPv4 addresses have one; leave it out")
	}
	if x.DuplicateDetection != "" && p.Addr().Is4() {
		f.add("duplicate_detection", "only IPv6 addresses have it; leave it out")
	}
}

func (x *Address) checkPeer(f *findings) {
	if x.Peer == "" {
		return
	}
	if x.Claim != "" {
		f.add("peer", "not together with claim; write the address")
		return
	}
	peer, ok := parseIP(x.Peer, "peer", f)
	if !ok {
		return
	}
	checkUnicast(peer, "peer", f)
	p, err := netip.ParsePrefix(x.Address)
	switch {
	case err != nil:
	case p.Addr().Is4() != peer.Is4():
		f.add("peer", "%s is %s, and address %s is %s", peer, family(peer), x.Address, family(p.Addr()))
	case p.Addr() == peer:
		f.add("peer", "%s is the address itself; leave it out", peer)
	}
}

package network

import (
	"net/netip"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/cni/spec"
)

// address is one that an attachment has.
type address struct {
	name   string // as an interface names it: claim:… or in CIDR notation
	to     string // as the destination of a route
	source string // as the source of a route
	Subnet        // where it is from
}

// addresses are those of an attachment: what the runtime asks for, and of each
// family that it does not ask for, any. The claims hold them.
func (n Network) addresses(inside string, rt Runtime) (list []address, claims []Want, wrong *spec.Error) {
	if n.given != nil { // by a plugin that has heard what the runtime asks for
		return n.givenAddresses(), nil, nil
	}
	wanted := make([][]string, len(n.Subnets))
	for _, text := range rt.IPs {
		i, ip, wrong := n.home(rt.source, text)
		if wrong != nil {
			return nil, nil, wrong
		}
		wanted[i] = append(wanted[i], ip)
	}
	for i, s := range n.Subnets {
		if len(wanted[i]) == 0 {
			wanted[i] = []string{""}
		}
		for _, ip := range wanted[i] {
			name := Numbered(inside, len(list))
			claims = append(claims, Want{models.IPClaimKey(name), &models.IPClaim{Pool: s.Pool, Address: ip}})
			name = models.ClaimPrefix + name
			list = append(list, address{name: name, to: name, source: name, Subnet: s})
		}
	}
	return list, claims, nil
}

// home finds the pool of an address that a runtime asks for, with or without a length.
func (n Network) home(source, text string) (i int, ip string, wrong *spec.Error) {
	a, err := netip.ParseAddr(text)
	if p, cidr := netip.ParsePrefix(text); cidr == nil {
		a, err = p.Addr(), nil
	}
	if err != nil {
		return 0, "", spec.Invalid("%s: %q is no IP address", source, text)
	}
	for i, s := range n.Subnets {
		switch {
		case a == s.gateway:
			return 0, "", spec.InUse("%s: %s is the address of the network's gateway", source, a)
		case s.Prefix.Contains(a) && s.reserved(a) != "":
			return 0, "", spec.Invalid("%s: %s is the %s address of %s", source, a, s.reserved(a), s.Prefix.Masked())
		case s.Prefix.Contains(a):
			return i, a.String(), nil
		}
	}
	return 0, "", spec.Invalid("%s: %s is in no pool of the network", source, a)
}

// reserved names the role of an address that no interface of the subnet can have, "" if
// it has none: the network's own address and, in IPv4, the broadcast address. Subnets of one
// or two addresses have neither (RFC 3021, RFC 6164). The pool refuses the same addresses, but
// only once the claim exists.
func (s Subnet) reserved(a netip.Addr) string {
	network := s.Prefix.Masked()
	if network.Bits() >= a.BitLen()-1 {
		return ""
	}
	switch {
	case a == network.Addr():
		return "network"
	case a.Is4() && !network.Contains(a.Next()):
		return "broadcast"
	}
	return ""
}

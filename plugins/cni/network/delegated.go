package network

import (
	"net/netip"

	"github.com/plumb-net/plumb/plugins/cni/spec"
)

// delegated takes the addresses that another plugin has given. plumb-cni has called it.
func (n *Network) delegated(plugin string, ipam *spec.Result) *spec.Error {
	if ipam == nil || len(ipam.IPs) == 0 {
		return spec.Invalid("ipam: the plugin %s has given no address", plugin)
	}
	for _, ip := range ipam.IPs {
		p, err := netip.ParsePrefix(ip.Address)
		if err != nil {
			return spec.Invalid("ipam: %s has given %q: %v", plugin, ip.Address, err)
		}
		s := Subnet{Prefix: p.Masked()}
		s.gateway, _ = netip.ParseAddr(ip.Gateway)
		if s.Foreign = plugin == "dhcp" || n.Link.Master != ""; s.gateway.IsValid() && !s.Foreign { // a foreign network has another machine as its router
			s.router = netip.PrefixFrom(s.gateway, n.length(p)).String()
		}
		n.Subnets, n.given = append(n.Subnets, s), append(n.given, p)
	}
	n.routes = ipam.Routes
	return nil
}

// length is that of an address in this network: on a routed one each stands alone.
func (n *Network) length(p netip.Prefix) int {
	if n.Mode == ModeRouted {
		return p.Addr().BitLen()
	}
	return p.Bits()
}

// givenAddresses are those of an attachment as they were given.
func (n Network) givenAddresses() (list []address) {
	for i, p := range n.given {
		alone := netip.PrefixFrom(p.Addr(), p.Addr().BitLen())
		list = append(list, address{
			name: netip.PrefixFrom(p.Addr(), n.length(p)).String(), to: alone.String(), source: p.Addr().String(), Subnet: n.Subnets[i]})
	}
	return list
}

package cni

import (
	"net/netip"

	"github.com/plumb-net/plumb/plugins/cni/spec"
)

// delegated takes the addresses that another plugin has given. plumb-cni has called it.
func (n *network) delegated(plugin string, ipam *spec.Result) *spec.Error {
	if ipam == nil || len(ipam.IPs) == 0 {
		return invalid("ipam: the plugin %s has given no address", plugin)
	}
	for _, ip := range ipam.IPs {
		p, err := netip.ParsePrefix(ip.Address)
		if err != nil {
			return invalid("ipam: %s has given %q: %v", plugin, ip.Address, err)
		}
		s := subnet{network: p.Masked()}
		s.gateway, _ = netip.ParseAddr(ip.Gateway)
		if s.foreign = plugin == "dhcp"; s.gateway.IsValid() && !s.foreign { // whose router is another machine
			s.router = netip.PrefixFrom(s.gateway, n.length(p)).String()
		}
		n.subnets, n.given = append(n.subnets, s), append(n.given, p)
	}
	n.routes = ipam.Routes
	return nil
}

// length is that of an address in this network: on a routed one each stands alone.
func (n *network) length(p netip.Prefix) int {
	if n.mode == modeRouted {
		return p.Addr().BitLen()
	}
	return p.Bits()
}

// givenAddresses are those of an attachment as they were given.
func (n network) givenAddresses() (list []address) {
	for i, p := range n.given {
		alone := netip.PrefixFrom(p.Addr(), p.Addr().BitLen())
		list = append(list, address{
			name: netip.PrefixFrom(p.Addr(), n.length(p)).String(), to: alone.String(), source: p.Addr().String(), subnet: n.subnets[i]})
	}
	return list
}

package network

import (
	"net/netip"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/cni/spec"
)

// Without a gateway in their pool, containers of a routed network reach the host by
// addresses that mean nothing beyond their link.
var (
	linkGateway4 = netip.MustParseAddr("169.254.1.1")
	linkGateway6 = netip.MustParseAddr("fe80::1")
)

// routed lays the cable of a container to the host itself. The container's address
// stands alone: nothing is on its link but the host's end, which has the gateway's
// address. So the way out is by the gateway, taken to be on the link, and the way
// in is a route of the host to each address.
func (n Network) routed(inside, outside string, list []address, out *models.Interface) ([]Want, *spec.Error) {
	seen := map[string]bool{}
	for i := range list {
		a := &list[i]
		if !a.gateway.IsValid() {
			a.gateway, a.router = linkGateway4, linkGateway4.String()+"/32"
			if a.Prefix.Addr().Is6() {
				a.gateway, a.router = linkGateway6, linkGateway6.String()+"/64"
			}
		}
		if !seen[a.router] {
			out.Addresses = append(out.Addresses, a.router)
		}
		seen[a.router] = true
	}
	useAtOnce(out)
	wants, wrong := n.waysOut(inside, list, func(a address, r *models.Route) {
		// A namespace without an address has no gateways at all: the source says to wait for it.
		r.Onlink, r.Source = r.Gateway != "", a.source
	})
	for i, a := range list {
		wants = append(wants, Want{models.RouteKey(Numbered(outside, i)), &models.Route{Interface: outside, Destination: a.to}})
	}
	if n.Forward {
		wants = append(wants, Want{models.ForwardKey(outside), &models.Forward{Interface: outside}})
	}
	return wants, wrong
}

package network

import (
	"cmp"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/cni/spec"
)

// addBridge: all containers of the network are on one bridge, which has the
// gateway's addresses.
func (n *Network) addBridge(name string) {
	n.Bridge = cmp.Or(n.Bridge, "pb"+ID(name)[:12])
	// With an address of its own: else the kernel gives it that of the least of its ports,
	// and with every container that comes or goes the others look for their gateway in vain.
	br := &models.Interface{HostName: n.Bridge, Mtu: n.mtu, MacAddress: macOf("", ID("bridge/"+name)), Link: &models.Interface_Bridge{Bridge: &models.Bridge{Forward: n.Forward}}}
	for _, s := range n.Subnets {
		if s.router != "" {
			br.Addresses = append(br.Addresses, s.router)
		}
	}
	useAtOnce(br)
	n.Shared = append(n.Shared, Want{models.InterfaceKey(n.Name), br})
}

// bridged lays the cable of a container to the bridge, by which it reaches the rest.
func (n Network) bridged(inside string, list []address, out *models.Interface) ([]Want, *spec.Error) {
	out.Master = n.Name
	if n.guards.isolated {
		out.BridgePort = &models.BridgePort{Isolated: true}
	}
	return n.waysOut(inside, list, func(address, *models.Route) {})
}

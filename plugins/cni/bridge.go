package cni

import (
	"cmp"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/cni/spec"
)

// addBridge: all containers of the network are on one bridge, which has the
// gateway's addresses.
func (n *network) addBridge(name string) {
	n.bridge = cmp.Or(n.bridge, "pb"+digest(name)[:12])
	// With an address of its own: else the kernel gives it that of the least of its ports,
	// and with every container that comes or goes the others look for their gateway in vain.
	br := &models.Interface{HostName: n.bridge, Mtu: n.mtu, MacAddress: macOf("", digest("bridge/"+name)), Link: &models.Interface_Bridge{Bridge: &models.Bridge{Forward: n.forward}}}
	for _, s := range n.subnets {
		if s.router != "" {
			br.Addresses = append(br.Addresses, s.router)
		}
	}
	n.shared = append(n.shared, Want{models.InterfaceKey(n.name), br})
}

// bridged lays the cable of a container to the bridge, by which it reaches the rest.
func (n network) bridged(inside string, list []address, out *models.Interface) ([]Want, *spec.Error) {
	out.Master = n.name
	return n.waysOut(inside, list, func(address, *models.Route) {})
}

package network

import (
	"cmp"
	"slices"

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

// bridged connects the host end of the veth pair of a container to the bridge, and returns the routes of the container.
func (n Network) bridged(inside string, list []address, out *models.Interface) ([]Want, *spec.Error) {
	out.Master = cmp.Or(n.Link.Master, n.Name)
	port := &models.BridgePort{Isolated: n.guards.isolated, Hairpin: n.Link.HairpinMode, Vlans: n.vlans()}
	if port.Isolated || port.Hairpin || len(port.Vlans) > 0 {
		out.BridgePort = port
	}
	return n.waysOut(inside, list, func(address, *models.Route) {})
}

// defaultVLAN is the VLAN that a bridge gives each new port, unless its default_pvid is another.
const defaultVLAN = 1

// vlans returns the VLANs of a bridge port, sorted. An empty list leaves the port in the default VLAN of the bridge.
func (n Network) vlans() (list []*models.BridgeVlan) {
	if n.Link.VLAN > 0 {
		list = append(list, &models.BridgeVlan{Id: n.Link.VLAN, Pvid: true, Untagged: true})
	}
	if n.Link.PreserveDefaultVLAN && n.Link.VLAN != defaultVLAN {
		list = append(list, &models.BridgeVlan{Id: defaultVLAN, Pvid: n.Link.VLAN == 0, Untagged: true})
	}
	for _, r := range n.Link.VLANTrunk {
		if r.ID > 0 {
			list = append(list, &models.BridgeVlan{Id: r.ID})
		}
		if r.MinID > 0 {
			list = append(list, &models.BridgeVlan{Id: r.MinID, To: r.MaxID})
		}
	}
	slices.SortFunc(list, func(a, b *models.BridgeVlan) int { return cmp.Compare(a.Id, b.Id) })
	return list
}

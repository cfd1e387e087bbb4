package network

import (
	"fmt"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/cni/spec"
)

// Exclusive names the interface of the master that only one container can have, or returns "".
func (n Network) Exclusive() string {
	switch {
	case n.Mode == ModeVlan:
		return fmt.Sprintf("VLAN %d of %s", n.Link.VLAN, models.InterfaceKey(n.Link.Master))
	case n.Mode == ModeMacvlan && n.Link.LinkMode == "passthru":
		return fmt.Sprintf("%s in link mode passthru", models.InterfaceKey(n.Link.Master))
	}
	return ""
}

// stacks reports whether the interface of a container is a link on the master.
func (n Network) stacks() bool {
	return n.Mode == ModeMacvlan || n.Mode == ModeIpvlan || n.Mode == ModeVlan
}

// stacked makes in a macvlan, ipvlan or VLAN on the master, and returns the routes of the container. Its packets do not
// pass the host, so there are no filters and no ports.
func (n Network) stacked(e Endpoint, inside string, in *models.Interface, list []address) ([]Want, *spec.Error) {
	if n.Mode != ModeMacvlan { // an ipvlan and a VLAN have the hardware address of their parent
		in.MacAddress = e.Runtime.Mac
	}
	switch n.Mode {
	case ModeMacvlan:
		in.Link = &models.Interface_Macvlan{Macvlan: &models.Macvlan{Parent: n.Link.Master, Mode: n.Link.LinkMode}}
	case ModeIpvlan:
		if e.Runtime.Mac != "" {
			return nil, spec.NotSupported("mac", "an ipvlan has the hardware address of its parent")
		}
		in.Link = &models.Interface_Ipvlan{Ipvlan: &models.Ipvlan{Parent: n.Link.Master, Mode: n.Link.LinkMode}}
	case ModeVlan:
		in.Link = &models.Interface_Vlan{Vlan: &models.Vlan{Parent: n.Link.Master, Id: n.Link.VLAN}}
	}
	return n.waysOut(inside, list, func(address, *models.Route) {})
}

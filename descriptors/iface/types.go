package iface

import (
	"net/netip"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/kind"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// linkType is what one type of link has of its own; one file each.
type linkType interface {
	// needs are those beyond namespace and master.
	needs(k scheduler.Key, v *models.Interface) []scheduler.Need
	// spec fills in what the kernel is asked for.
	spec(w *wish, s *kernel.LinkSpec) error
	// patch fills in what of the settings of the type is to change of a link that is there.
	patch(w *wish, l kernel.Link, p *kernel.LinkPatch)
	// differs compares the settings of the type; both are of this type.
	differs(actual, desired *models.Interface) kind.Differences
}

// fixed is a type whose settings do not change while the link lives.
type fixed struct{}

func (fixed) patch(*wish, kernel.Link, *kernel.LinkPatch) {}

// plain is a type that needs nothing of its own and has no settings that differ.
type plain struct{ fixed }

func (plain) needs(scheduler.Key, *models.Interface) []scheduler.Need { return nil }
func (plain) differs(_, _ *models.Interface) kind.Differences         { return nil }

// typeOf finds the type of a value.
func typeOf(v *models.Interface) linkType {
	switch v.GetLink().(type) {
	case *models.Interface_Veth:
		return veth{}
	case *models.Interface_Bridge:
		return bridge{}
	case *models.Interface_Vxlan:
		return vxlan{}
	case *models.Interface_Vlan:
		return vlan{}
	case *models.Interface_Macvlan:
		return macvlan{}
	case *models.Interface_Ipvlan:
		return ipvlan{}
	case *models.Interface_Dummy, *models.Interface_Ifb:
		return alone{}
	case *models.Interface_Bond:
		return bond{}
	case *models.Interface_Wireguard:
		return wireguard{}
	case *models.Interface_Gre, *models.Interface_Gretap, *models.Interface_Ipip, *models.Interface_Sit:
		return tunnel{}
	case *models.Interface_Geneve:
		return geneve{}
	case *models.Interface_Tap, *models.Interface_Tun:
		return tuntap{}
	case *models.Interface_Vrf:
		return vrf{}
	case *models.Interface_Loopback:
		return loopback{}
	case *models.Interface_Existing:
		return existing{}
	}
	return unknown{}
}

// readType sets the type of v to what the kernel shows. It is left unset for
// types that we never make. hint is what is believed or wanted of the link,
// for what the kernel cannot tell from here.
func (d *iface) readType(l kernel.Link, v, hint *models.Interface) {
	switch l.Type {
	case "veth":
		v.Link = &models.Interface_Veth{Veth: d.readVeth(l, hint.GetVeth())}
	case "bridge":
		v.Link = &models.Interface_Bridge{Bridge: d.readBridge(l, hint.GetBridge())}
	case "vxlan":
		v.Link = &models.Interface_Vxlan{Vxlan: d.readVxlan(l)}
	case "vlan":
		v.Link = &models.Interface_Vlan{Vlan: d.readVlan(l)}
	case "macvlan":
		v.Link = &models.Interface_Macvlan{Macvlan: d.readMacvlan(l)}
	case "ipvlan":
		v.Link = &models.Interface_Ipvlan{Ipvlan: d.readIpvlan(l)}
	case "tun":
		readTuntap(l.Tuntap, v)
	case "dummy":
		v.Link = &models.Interface_Dummy{Dummy: &models.Dummy{}}
	case "ifb":
		v.Link = &models.Interface_Ifb{Ifb: &models.Ifb{}}
	case "vrf":
		v.Link = &models.Interface_Vrf{Vrf: readVrf(l.Vrf)}
	case "bond":
		v.Link = &models.Interface_Bond{Bond: readBond(l.Bond)}
	case "geneve":
		v.Link = &models.Interface_Geneve{Geneve: readGeneve(l.Geneve)}
	case "wireguard":
		v.Link = &models.Interface_Wireguard{Wireguard: d.readWireGuard(l, hint.GetWireguard())}
	default:
		d.readTunnel(l, v)
	}
}

// addr reads an address that validation has seen; "" is the zero Addr.
func addr(text string) netip.Addr {
	a, _ := netip.ParseAddr(text)
	return a
}

// text writes an address, "" for none.
func text(a netip.Addr) string {
	if !a.IsValid() || a.IsUnspecified() {
		return ""
	}
	return a.String()
}

// unknown is a value without a type; validation lets none through.
type unknown struct{ plain }

func (unknown) spec(*wish, *kernel.LinkSpec) error {
	return scheduler.Invalid("", "names no link type")
}

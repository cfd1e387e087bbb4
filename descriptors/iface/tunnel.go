package iface

import (
	"fmt"
	"net/netip"
	"reflect"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/kind"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// tunnel is one of IP: gre, gretap, ipip or sit. Which of the kernel's types it is goes by
// the family of its ends.
type tunnel struct{}

// patch has all of the settings if one is not as asked.
func (tunnel) patch(w *wish, l kernel.Link, p *kernel.LinkPatch) {
	want := tunnelSpec(w)
	if l.Tunnel == nil || !reflect.DeepEqual(l.Tunnel, want) {
		p.Tunnel = want
	}
}

func (tunnel) needs(_ scheduler.Key, v *models.Interface) []scheduler.Need {
	return parentNeeds(v, "the interface that carries the tunnel")
}

// kernelTypes are the kernel's types of the tunnels whose outer packets are IPv6.
var kernelTypes = map[string]string{"gre": "ip6gre", "gretap": "ip6gretap", "ipip": "ip6tnl"}

func (tunnel) spec(w *wish, s *kernel.LinkSpec) error {
	s.Tunnel = tunnelSpec(w)
	return nil
}

func tunnelSpec(w *wish) *kernel.TunnelSpec {
	t := w.value.Tunnel()
	s := &kernel.TunnelSpec{
		Kind: w.value.LinkType(), Local: addr(t.GetLocal()), Remote: addr(t.GetRemote()), Parent: w.parent.Index,
		TTL: uint8(models.TunnelTTL(t)), PMTUDiscovery: !t.GetNoPmtuDiscovery(),
	}
	if models.TunnelIs6(t) {
		s.Kind, s.PMTUDiscovery, s.EncapLimit = kernelTypes[s.Kind], false, models.EncapLimit(t)
	}
	if g, ok := t.(*models.Gre); ok {
		s.Key, s.Checksum, s.External = g.Key, g.GetChecksum(), g.GetExternal()
		if s.Local.IsUnspecified() { // it told the family
			s.Local = netip.Addr{}
		}
	}
	return s
}

// differs: the kernel changes all of a tunnel in place but its family and whether it has
// one other end or many.
func (tunnel) differs(actual, desired *models.Interface) (d kind.Differences) {
	was, is, name := actual.Tunnel(), desired.Tunnel(), desired.LinkType()
	d.Must(models.TunnelIs6(was) != models.TunnelIs6(is), name, familyOf(was), familyOf(is))
	local, remote := d.May, d.May
	if (was.GetRemote() == "") != (is.GetRemote() == "") {
		remote = d.Must
	}
	local(addr(was.GetLocal()) != addr(is.GetLocal()), name+".local", was.GetLocal(), is.GetLocal())
	remote(addr(was.GetRemote()) != addr(is.GetRemote()), name+".remote", was.GetRemote(), is.GetRemote())
	d.May(was.GetParent() != is.GetParent(), name+".parent", was.GetParent(), is.GetParent())
	d.May(models.TunnelTTL(was) != models.TunnelTTL(is), name+".ttl", models.TunnelTTL(was), models.TunnelTTL(is))
	d.May(was.GetNoPmtuDiscovery() != is.GetNoPmtuDiscovery(), name+".no_pmtu_discovery", was.GetNoPmtuDiscovery(), is.GetNoPmtuDiscovery())
	mayOptional(&d, name+".encap_limit", models.EncapLimit(was), models.EncapLimit(is))
	if a, ok := was.(*models.Gre); ok {
		b := is.(*models.Gre)
		d.Must(a.GetExternal() != b.GetExternal(), name+".external", a.GetExternal(), b.GetExternal())
		d.May(orZero(a.Key) != orZero(b.Key) || (a.Key == nil) != (b.Key == nil), name+".key", keyText(a.Key), keyText(b.Key))
		d.May(a.GetChecksum() != b.GetChecksum(), name+".checksum", a.GetChecksum(), b.GetChecksum())
	}
	return d
}

func familyOf(t models.Ends) string {
	if models.TunnelIs6(t) {
		return "in IPv6"
	}
	return "in IPv4"
}

func keyText(key *uint32) string {
	if key == nil {
		return "none"
	}
	return fmt.Sprint(*key)
}

// readTunnel sets the type of v if the link is a tunnel of IP.
func (d *iface) readTunnel(l kernel.Link, v *models.Interface) {
	s := l.Tunnel
	if s == nil || s.More { // another's doing: it is none that is wanted
		return
	}
	local, remote, parent := text(s.Local), text(s.Remote), d.parentName(l, l.NS, s.Parent)
	noPMTU := !s.PMTUDiscovery
	switch s.Kind {
	case "ip6gre", "ip6gretap", "ip6tnl":
		noPMTU = false
		if local == "" && remote == "" {
			local = netip.IPv6Unspecified().String() // still to be told from one of IPv4
		}
	}
	gre := &models.Gre{Local: local, Remote: remote, Parent: parent, Key: s.Key, Ttl: uint32(s.TTL), NoPmtuDiscovery: noPMTU, Checksum: s.Checksum, EncapLimit: s.EncapLimit}
	ip := &models.Tunnel{Local: local, Remote: remote, Parent: parent, Ttl: uint32(s.TTL), NoPmtuDiscovery: noPMTU, EncapLimit: s.EncapLimit}
	if s.External { // what else it says means nothing to packets
		gre = &models.Gre{Local: local, External: true}
	}
	switch s.Kind {
	case "gre", "ip6gre":
		v.Link = &models.Interface_Gre{Gre: gre}
	case "gretap", "ip6gretap":
		v.Link = &models.Interface_Gretap{Gretap: gre}
	case "ipip", "ip6tnl":
		v.Link = &models.Interface_Ipip{Ipip: ip}
	case "sit":
		v.Link = &models.Interface_Sit{Sit: &models.Sit{Local: local, Remote: remote, Parent: parent, Ttl: uint32(s.TTL), NoPmtuDiscovery: noPMTU}}
	}
}

// tunnelApart: the kernel sends the packets of a tunnel in the namespace that it is in.
func (d *iface) tunnelApart(v *models.Interface) error {
	parent, _, _ := d.Interfaces.Get(keyOf(v.Parent()))
	return scheduler.Terminal(fmt.Errorf(
		"parent %s lives in %s and this tunnel in %s; both must live in one namespace (a veth can reach from one to the other)",
		v.Parent(), parent.GetNamespace().Text(), v.GetNamespace().Text()))
}

// geneve is a tunnel end of Ethernet over UDP.
type geneve struct{ plain }

func (geneve) spec(w *wish, s *kernel.LinkSpec) error {
	s.Geneve = geneveSpec(w.value.GetGeneve())
	return nil
}

func geneveSpec(v *models.Geneve) *kernel.GeneveSpec {
	return &kernel.GeneveSpec{VNI: v.GetVni(), Remote: addr(v.GetRemote()), Port: int(v.EffectivePort()), TTL: uint8(v.GetTtl()), External: v.GetExternal()}
}

// patch has all of the settings if one is not as asked.
func (geneve) patch(w *wish, l kernel.Link, p *kernel.LinkPatch) {
	if want := geneveSpec(w.value.GetGeneve()); l.Geneve == nil || *l.Geneve != *want {
		p.Geneve = want
	}
}

func (geneve) differs(actual, desired *models.Interface) (d kind.Differences) {
	was, is := actual.GetGeneve(), desired.GetGeneve()
	d.Must(was.GetExternal() != is.GetExternal(), "geneve.external", was.GetExternal(), is.GetExternal())
	d.Must(was.GetVni() != is.GetVni(), "geneve.vni", was.GetVni(), is.GetVni())
	d.Must(was.EffectivePort() != is.EffectivePort(), "geneve.port", was.EffectivePort(), is.EffectivePort())
	remote := d.May
	if a, b := addr(was.GetRemote()), addr(is.GetRemote()); a.Is6() != b.Is6() {
		remote = d.Must
	}
	remote(addr(was.GetRemote()) != addr(is.GetRemote()), "geneve.remote", was.GetRemote(), is.GetRemote())
	d.May(was.GetTtl() != is.GetTtl(), "geneve.ttl", was.GetTtl(), is.GetTtl())
	return d
}

func readGeneve(s *kernel.GeneveSpec) *models.Geneve {
	if s == nil {
		return &models.Geneve{}
	}
	return &models.Geneve{Vni: s.VNI, Remote: text(s.Remote), Port: uint32(s.Port), Ttl: uint32(s.TTL), External: s.External}
}

// sameTunnel finds the device that is known by the same things: the kernel wants them once
// per namespace, whatever the name.
func (d *iface) sameTunnel(w *wish, spec kernel.LinkSpec) error {
	if spec.Vxlan == nil && spec.Tunnel == nil && spec.Geneve == nil {
		return nil
	}
	links, err := d.Kernel.Links(w.place.NS)
	if err != nil {
		return err
	}
	for _, l := range links {
		what, instead := sameAs(l, spec)
		if what == "" {
			continue
		}
		return scheduler.Conflict(d.ownerOf(l), fmt.Errorf(
			"%s in use by the link %s in %s; choose %s", what, l.Name, w.value.GetNamespace().Text(), instead))
	}
	return nil
}

// sameAs says what a tunnel shares with a link that only one can have, and what would make
// it another; "" if nothing.
func sameAs(l kernel.Link, spec kernel.LinkSpec) (what, instead string) {
	switch {
	case spec.Vxlan != nil && l.Vxlan != nil && spec.Vxlan.External && l.Vxlan.External && l.Vxlan.Port == spec.Vxlan.Port:
		return fmt.Sprintf("port %d with external is", l.Vxlan.Port), "another port"
	case spec.Geneve != nil && l.Geneve != nil && (spec.Geneve.External || l.Geneve.External) && l.Geneve.Port == spec.Geneve.Port:
		return fmt.Sprintf("port %d, which external wants for itself, is", l.Geneve.Port), "another port"
	case spec.Vxlan != nil && l.Vxlan != nil && l.Vxlan.VNI == spec.Vxlan.VNI && l.Vxlan.Port == spec.Vxlan.Port:
		return fmt.Sprintf("vni %d is", l.Vxlan.VNI), "another vni or port"
	case spec.Geneve != nil && l.Geneve != nil && l.Geneve.VNI == spec.Geneve.VNI &&
		l.Geneve.Remote == spec.Geneve.Remote && l.Geneve.Port == spec.Geneve.Port:
		return fmt.Sprintf("vni %d and %s are", l.Geneve.VNI, l.Geneve.Remote), "another vni, remote or port"
	case spec.Tunnel != nil && l.Tunnel != nil:
		a, b := *l.Tunnel, *spec.Tunnel
		if a.Kind == b.Kind && a.External == b.External && a.Local == b.Local && a.Remote == b.Remote && a.Parent == b.Parent &&
			(a.Key == nil) == (b.Key == nil) && orZero(a.Key) == orZero(b.Key) {
			return fmt.Sprintf("the %s tunnel from %s to %s is", b.Kind, orAny(b.Local), orAny(b.Remote)), "other ends"
		}
	}
	return "", ""
}

func orAny(a netip.Addr) string {
	if !a.IsValid() {
		return "any address"
	}
	return a.String()
}

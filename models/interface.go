package models

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"unicode"

	"google.golang.org/protobuf/proto"
)

// The kernel's bounds for the name of a link and for its other names, in bytes.
const (
	maxHostName        = 15
	maxAlternativeName = 127
)

// loopbackName is what the kernel calls the loopback of every namespace.
const loopbackName = "lo"

// EffectiveHostName is the name in the kernel: host_name, or its default, which
// is lo for a loopback and otherwise the name in the key.
func (x *Interface) EffectiveHostName(key string) string {
	if x.GetHostName() != "" {
		return x.GetHostName()
	}
	if x.GetLoopback() != nil {
		return loopbackName
	}
	_, name, _ := strings.Cut(key, "/")
	return name
}

// settable are the fields that set_once may name.
var settable = []string{"mac_address", "mtu", "master"}

// SetsOnce reports whether a field is left to others once the link is made.
func (x *Interface) SetsOnce(field string) bool { return slices.Contains(x.GetSetOnce(), field) }

// IsEnabled reports whether the interface shall be up: enabled, default true.
func (x *Interface) IsEnabled() bool { return x.Enabled == nil || *x.Enabled }

// IsMade reports whether Plumb makes the link. Others made those that exist, a loopback, and what is
// taken over.
func (x *Interface) IsMade() bool {
	return x != nil && x.GetExisting() == nil && x.GetLoopback() == nil && !x.GetAdopt()
}

// AddressPositions returns the positions of the derived addresses by key. Only IPv4 addresses have
// positions, and claims, which may hold one. It returns nil for fewer than two of them.
func (x *Interface) AddressPositions(name string) map[string]uint32 {
	positions := map[string]uint32{}
	for _, text := range x.GetAddresses() {
		key := AddressKey(name, text)
		if positions[key] == 0 && (strings.HasPrefix(text, ClaimPrefix) || !strings.Contains(text, ":")) {
			positions[key] = uint32(len(positions) + 1)
		}
	}
	if len(positions) < 2 {
		return nil
	}
	return positions
}

// RemovesAddresses reports whether addresses of others are removed from the link.
func (x *Interface) RemovesAddresses() bool {
	return x.GetAddressesExclusive() || x.IsMade() && len(x.GetAddresses()) > 0
}

// Copy is a copy that may be changed.
func (x *Interface) Copy() *Interface { return proto.CloneOf(x) }

// WithAlternativeNames is a copy that has some more of them.
func (x *Interface) WithAlternativeNames(more []string) *Interface {
	y := proto.CloneOf(x)
	y.AlternativeNames = append(y.AlternativeNames, more...)
	return y
}

// LinkType names the member of the oneof that is set: "veth"; empty if none is.
func (x *Interface) LinkType() string {
	m := x.ProtoReflect()
	fd := m.WhichOneof(m.Descriptor().Oneofs().ByName("link"))
	if fd == nil {
		return ""
	}
	return string(fd.Name())
}

// Parent is the logical name of the interface below, for the types that have one.
func (x *Interface) Parent() string {
	switch l := x.GetLink().(type) {
	case *Interface_Vxlan:
		return l.Vxlan.GetParent()
	case *Interface_Vlan:
		return l.Vlan.GetParent()
	case *Interface_Macvlan:
		return l.Macvlan.GetParent()
	case *Interface_Ipvlan:
		return l.Ipvlan.GetParent()
	}
	if t := x.Tunnel(); t != nil {
		return t.GetParent()
	}
	return ""
}

func (x *Interface) check(name string, f *findings) {
	if x.Namespace != nil {
		x.Namespace.check("namespace", f)
	}
	x.checkHostName(name, f)
	x.checkAlternativeNames(name, f)
	x.checkMAC(f)
	x.checkAddresses(f)
	x.checkMTU(f)
	if x.Master != "" {
		checkRef(x.Master, "master", "a bridge, bond or vrf", f)
		if x.Master == name {
			f.add("master", "is the interface itself")
		}
	}
	for i, field := range x.SetOnce {
		if !slices.Contains(settable, field) {
			f.add(fmt.Sprintf("set_once[%d]", i), "%q is none of %s", field, strings.Join(settable, ", "))
		}
	}
	if x.GetBridge().GetForward() && x.Namespace != nil {
		f.add("bridge.forward", "is for bridges of the host; there is none of its firewalls in %s", x.Namespace.Text())
	}
	if x.LinkOnly && len(x.Addresses) > 0 {
		f.add("link_only", "leaves addresses to others; take it out, or the addresses")
	}
	if x.LinkOnly && x.AddressesExclusive {
		f.add("addresses_exclusive", "removes addresses of others, and link_only leaves addresses to others; keep one")
	}
	if x.Adopt && (x.GetExisting() != nil || x.GetLoopback() != nil) {
		f.add("adopt", "is for links that Plumb makes if they are not there; %s is always others'", x.LinkType())
	}
	x.checkBridge(f)
	x.checkOffloads(f)
	x.checkLink(name, f)
}

// checkMTU checks what the table of limits cannot, since it goes by the type.
func (x *Interface) checkMTU(f *findings) {
	switch {
	case x.GetTap() != nil && maxTapMTU < x.Mtu && x.Mtu <= maxMTU:
		f.add("mtu", "a tap takes at most %d, not %d", maxTapMTU, x.Mtu)
	case x.GetVrf() != nil && minMTU <= x.Mtu && x.Mtu < minMTUv6:
		f.add("mtu", "a vrf takes at least %d, not %d", minMTUv6, x.Mtu)
	}
}

func (x *Interface) checkHostName(name string, f *findings) {
	if x.GetLoopback() != nil {
		if x.HostName != "" && x.HostName != loopbackName {
			f.add("host_name", "a loopback is always called %s; leave it out", loopbackName)
		}
		return
	}
	host := x.EffectiveHostName(InterfaceKey(name))
	wrong := linkNameError(host, maxHostName)
	if host == "all" || host == "default" {
		wrong = "the kernel has settings of all links under that name, and gives it to none"
	}
	switch {
	case wrong == "":
	case x.HostName == "":
		f.add("host_name", "the default, %s, cannot be the name of a link: %s; set host_name", host, wrong)
	default:
		f.add("host_name", "%q: %s", host, wrong)
	}
	if x.GetExisting() == nil && host == loopbackName {
		f.add("host_name", "%s is the loopback of the namespace; choose another name, or the type loopback", host)
	}
}

func (x *Interface) checkAlternativeNames(name string, f *findings) {
	host, seen := x.EffectiveHostName(InterfaceKey(name)), map[string]int{}
	for i, alt := range x.AlternativeNames {
		at := fmt.Sprintf("alternative_names[%d]", i)
		first, double := seen[alt]
		wrong := linkNameError(alt, maxAlternativeName)
		switch {
		case alt == "":
			f.add(at, "must not be empty; write a name, or leave it out")
		case wrong != "":
			f.add(at, "%q: %s", alt, wrong)
		case alt == host:
			f.add(at, "%s is the host_name of the interface; leave it out", alt)
		case alt == loopbackName:
			f.add(at, "%s is the loopback of the namespace; choose another name", alt)
		case double:
			f.add(at, "%s is in the list already, as alternative_names[%d]", alt, first)
		default:
			seen[alt] = i
		}
	}
}

// linkNameError says why the kernel would refuse a link of that name.
func linkNameError(name string, longest int) string {
	if len(name) > longest {
		return fmt.Sprintf("it has %d bytes, and the kernel takes at most %d", len(name), longest)
	}
	if name == "." || name == ".." {
		return "the kernel does not take it"
	}
	for _, r := range name {
		// The kernel reads % as a pattern for numbering.
		if r == '/' || r == ':' || r == '%' || unicode.IsSpace(r) || unicode.IsControl(r) {
			return fmt.Sprintf("it holds %q", r)
		}
	}
	return ""
}

func (x *Interface) checkMAC(f *findings) {
	if x.MacAddress == "" {
		return
	}
	switch x.GetLink().(type) {
	case *Interface_Loopback, *Interface_Tun, *Interface_Wireguard, *Interface_Gre, *Interface_Ipip, *Interface_Sit:
		f.add("mac_address", "a %s has none; leave it out", x.LinkType())
		return
	case *Interface_Ipvlan:
		f.add("mac_address", "an ipvlan has that of its parent; leave it out")
		return
	case *Interface_Bond:
		if x.GetBond().GetFailOverMac() == "active" {
			f.add("mac_address", "a bond with fail_over_mac active has that of its active port; leave it out")
			return
		}
	}
	if checkMAC(x.MacAddress, "mac_address", f) && x.MacAddress == zeroMAC {
		f.add("mac_address", "is all zero; leave it out for the kernel's choice")
	}
}

func (x *Interface) checkAddresses(f *findings) {
	seen := make(map[string]int, len(x.Addresses))
	v6 := false
	for i, s := range x.Addresses {
		at := fmt.Sprintf("addresses[%d]", i)
		id := s
		if claim, ok := strings.CutPrefix(s, ClaimPrefix); ok {
			if err := CheckName(claim); err != nil {
				f.add(at, "%s<ipclaim>: %v", ClaimPrefix, err)
				continue
			}
		} else {
			p, ok := parseCIDR(s, at, f)
			if !ok {
				continue
			}
			checkUnicast(p.Addr(), at, f)
			v6 = v6 || p.Addr().Is6()
			id = addressID(p)
		}
		if first, double := seen[id]; double {
			f.add(at, "%s is in the list already, as addresses[%d] %s", s, first, x.Addresses[first])
			continue
		}
		seen[id] = i
	}
	if v6 && minMTU <= x.Mtu && x.Mtu < minMTUv6 {
		f.add("mtu", "IPv6 addresses need at least %d, not %d", minMTUv6, x.Mtu)
	}
}

// addressID is equal for addresses that cannot be on one link together: IPv4
// tells equal addresses of different length apart, IPv6 does not.
func addressID(p netip.Prefix) string {
	if p.Addr().Is4() {
		return p.String()
	}
	return p.Addr().String()
}

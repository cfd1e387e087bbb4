package iface

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/kind"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// Survey finds the links that others made, with the addresses that they have for good.
func Survey(s *kind.Survey) error {
	v := &survey{Survey: s, links: map[kernel.LinkRef]*candidate{}, claimed: kind.Claimed(s, claims)}
	v.iface = &iface{Deps: Deps{Kernel: s.Kernel, Owner: s.Owner, Names: s.Names, Interfaces: new(Self)}}
	for _, p := range s.Places {
		links, err := s.Kernel.Links(p.NS)
		if kernel.IsGone(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("read the links of %s: %w", p.In.Text(), err)
		}
		addresses, err := s.Kernel.Addresses(p.NS, 0)
		if err != nil && !kernel.IsGone(err) {
			return fmt.Errorf("read the addresses of %s: %w", p.In.Text(), err)
		}
		for _, l := range links {
			v.consider(p, l, addresses)
		}
	}
	for v.drop() {
	}
	for _, c := range v.order {
		if c.in {
			s.Names.Put(c.Ref(), s.Name(models.KindInterface, c.place, c.Name))
		}
	}
	for _, c := range v.order {
		if c.in {
			v.add(c)
		}
	}
	return nil
}

type survey struct {
	*kind.Survey
	iface   *iface
	claimed func(*models.Interface) bool
	links   map[kernel.LinkRef]*candidate
	order   []*candidate
}

// candidate is a link that may be adopted.
type candidate struct {
	kernel.Link
	place     kind.Place
	addresses []kernel.Address
	in        bool
	existing  bool // Plumb cannot make such a link, or no value says what it is
}

// ofRuntimes are the names that container runtimes, their networks and hypervisors give.
var ofRuntimes = regexp.MustCompile(`^(docker\d+|docker_gwbridge|br-[0-9a-f]{12}|podman\d+|cni\d+|cni-.*|nerdctl\d+|lxcbr\d+|lxdbr\d+|incusbr\d+|virbr\d+(-nic)?|vnet\d+|cali.*|cilium_.*|lxc.*|flannel.*|kube-.*|nodelocaldns|weave.*|tailscale\d+|zt.{8})$`)

// ofKernel are the tunnel devices that the kernel makes with its modules.
var ofKernel = []string{"tunl0", "gre0", "gretap0", "erspan0", "sit0", "ip_vti0", "ip6_vti0", "ip6tnl0", "ip6gre0"}

// consider decides by the link alone.
func (v *survey) consider(p kind.Place, l kernel.Link, addresses []kernel.Address) {
	_, wanted := v.Names.Of(l.Ref())
	_, ours := v.Owner.MarkedKey(l.Alias)
	if wanted || ours || v.claimed(&models.Interface{Namespace: p.In, HostName: l.Name}) || slices.Contains(ofKernel, l.Name) {
		return
	}
	c := &candidate{Link: l, place: p, existing: !makes(l) || beyond(l)}
	for _, a := range addresses {
		if a.Index != l.Index || a.Prefix.Addr().IsLinkLocalUnicast() && a.Prefix.Addr().Is6() || a.Protocol >= 1 && a.Protocol <= 3 {
			continue
		}
		if l.Name == "lo" && (a.Prefix == netip.MustParsePrefix("127.0.0.1/8") || a.Prefix == netip.MustParsePrefix("::1/128")) {
			continue
		}
		if a.Kernel || kernel.IsMarked(a.Protocol) {
			v.Leave(p, fmt.Sprintf("address %s of %s", a.Prefix, l.Name), "it is dynamic, or of another agent")
			continue
		}
		if a.Deprecated {
			v.Leave(p, fmt.Sprintf("address %s of %s", a.Prefix, l.Name), "it is deprecated, and no value says since when")
			continue
		}
		c.addresses = append(c.addresses, a)
	}
	switch {
	case l.Name == "lo" && len(c.addresses) == 0:
		return
	case kernel.IsMark(l.Alias):
		v.Leave(p, "link "+l.Name, "it is of another agent (%s)", l.Alias)
		return
	case v.refused(c) != nil:
		v.Leave(p, "link "+l.Name, "%v", v.refused(c))
		return
	case ofRuntimes.MatchString(l.Name):
		v.Leave(p, "link "+l.Name, "it looks like one of a container runtime or hypervisor")
		return
	}
	c.in = true
	v.links[l.Ref()] = c
	v.order = append(v.order, c)
}

// refused says why nobody may take over the link.
func (v *survey) refused(c *candidate) error {
	if v.Refused == nil || c.Name == "lo" {
		return nil
	}
	x := &models.Interface{Namespace: c.place.In, HostName: c.Name, Adopt: true}
	return v.Refused(models.InterfaceKey(c.Name), x)
}

// makes reports whether Plumb can make such a link.
func makes(l kernel.Link) bool {
	switch l.Type {
	case "veth", "bridge", "vxlan", "vlan", "macvlan", "ipvlan", "dummy", "ifb", "vrf", "bond", "geneve":
		return true
	case "tun":
		return l.Tuntap != nil
	}
	return l.Tunnel != nil && !l.Tunnel.More
}

// beyond reports whether a link has settings that no value says, though it reads as one.
func beyond(l kernel.Link) bool {
	if b := l.Bond; b != nil { // that it looks after nothing: 0 is the default there
		return orZero(b.Miimon) == 0 && orZero(b.ARPInterval) == 0
	}
	t := l.Tunnel
	return t != nil && (t.Else || t.TTL == 0 && strings.HasPrefix(t.Kind, "ip6"))
}

// drop leaves out what stands on a link that is left out. It reports whether there was any.
func (v *survey) drop() (any bool) {
	for _, c := range v.order {
		if !c.in {
			continue
		}
		if why := v.unfit(c); why != "" {
			v.Leave(c.place, "link "+c.Name, "%s", why)
			c.in, any = false, true
		}
	}
	return any
}

// unfit says why a link cannot be adopted beside those that are.
func (v *survey) unfit(c *candidate) string {
	fit := func(ref kernel.LinkRef) bool {
		_, wanted := v.Names.Of(ref)
		other := v.links[ref]
		return wanted || other != nil && other.in
	}
	if c.Master != 0 && !fit(kernel.LinkRef{NS: c.NS, Index: c.Master}) {
		return "the link that it belongs to is left out"
	}
	below := c.below()
	if c.existing || below.Index == 0 {
		return ""
	}
	if other := v.links[below]; c.Type == "veth" && (other == nil || !other.in) {
		return "its other end is left out, or in a namespace without a name"
	}
	if !fit(below) {
		return "the link that it stands on is left out, or in a namespace without a name"
	}
	return ""
}

// below is the link that another stands on, or the other end of a cable.
func (c *candidate) below() kernel.LinkRef {
	switch {
	case c.Vxlan != nil:
		return kernel.LinkRef{NS: c.Vxlan.ParentNS, Index: c.Vxlan.Parent}
	case c.Tunnel != nil:
		return kernel.LinkRef{NS: c.NS, Index: c.Tunnel.Parent}
	}
	return kernel.LinkRef{NS: c.ParentNS, Index: c.Parent}
}

// add adds a link as a value.
func (v *survey) add(c *candidate) {
	name, _ := v.Names.Of(c.Ref())
	x := &models.Interface{}
	if !c.existing && c.Name != "lo" {
		x = v.made(scheduler.Key(models.InterfaceKey(name)), c)
		c.existing = models.Validate(models.InterfaceKey(name), x) != nil
	}
	switch {
	case c.Name == "lo":
		x.Link = &models.Interface_Loopback{Loopback: &models.Loopback{}}
	case c.existing:
		x = &models.Interface{}
		x.Link = &models.Interface_Existing{Existing: &models.Existing{}}
		if c.Master != 0 {
			x.Master = v.iface.linkName(kernel.LinkRef{NS: c.NS, Index: c.Master}, "")
		}
	}
	x.Namespace = c.place.In
	if c.Name != name && c.Name != "lo" {
		x.HostName = c.Name
	}
	for _, a := range c.addresses {
		if listed(a, c.Name) {
			x.Addresses = append(x.Addresses, a.Prefix.String())
			continue
		}
		key := models.KindAddress + "/" + v.Name(models.KindAddress, c.place, c.Name+"-"+a.Prefix.String())
		y := &models.Address{Interface: name, Address: a.Prefix.String(), Scope: scopes[a.Scope]}
		if a.Label != c.Name {
			y.Label = a.Label
		}
		kind.SetNetwork(y, a)
		v.Add(c.place, "address "+a.Prefix.String(), key, y)
	}
	v.Add(c.place, "link "+c.Name, models.InterfaceKey(name), x)
}

var scopes = map[int]string{200: "site", 253: "link", 254: "host"}

// listed reports whether an address is as the list of an interface has it.
func listed(a kernel.Address, host string) bool {
	if a.Peer.IsValid() || a.Metric != 0 || a.NoPrefixRoute {
		return false
	}
	if a.Prefix.Addr().Is6() {
		return true
	}
	byDefault := 0
	if a.Prefix.Addr().IsLoopback() {
		byDefault = 254
	}
	return a.Scope == byDefault && (a.Label == "" || a.Label == host)
}

// made is a link of a type that Plumb makes. Only what is not as the kernel has it by default
// is named; what a value says of a port is named as a whole.
func (v *survey) made(k scheduler.Key, c *candidate) *models.Interface {
	hint := &models.Interface{BridgePort: &models.BridgePort{Priority: new(uint32)}}
	if c.Bridge != nil {
		hint.Link = &models.Interface_Bridge{Bridge: &models.Bridge{
			AgeingTime: new(uint32), DefaultPvid: new(uint32), Priority: new(uint32), ForwardDelay: new(uint32)}}
	}
	x := v.iface.value(k, c.Link, c.place.In, hint)
	for _, s := range optional {
		if p := s.field(x); p != nil && orZero(*p) == s.byDefault {
			*p = nil
		}
	}
	x.Adopt, x.HostName = true, ""
	x.AcceptRa, x.AcceptRedirects = nil, nil // what an adopted link accepts stays as it is
	if c.Up {
		x.Enabled = nil
	}
	if !v.namesMTU(c) {
		x.Mtu = 0
	}
	if !v.namesMAC(c) {
		x.MacAddress = ""
	}
	if b := x.GetBridge(); b.GetVlanFiltering() {
		b.Vlans = unlessDefault(v.iface.readVLANs(c.Link, []*models.BridgeVlan{{}}), c.Bridge)
	}
	if x.GetVlan().GetProtocol() == "802.1q" {
		x.GetVlan().Protocol = ""
	}
	if p := x.GetBridgePort(); p != nil {
		p.Cost = nil // it follows from the speed
		if m := v.links[kernel.LinkRef{NS: c.NS, Index: c.Master}]; m != nil && m.Bridge != nil && orZero(m.Bridge.VLANFiltering) {
			p.Vlans = unlessDefault(v.iface.readVLANs(c.Link, []*models.BridgeVlan{{}}), m.Bridge)
		}
		if proto.Equal(p, &models.BridgePort{}) {
			x.BridgePort = nil
		}
	}
	return x
}

// unlessDefault is nothing of the VLANs that a bridge and its ports have by themselves.
func unlessDefault(list []*models.BridgeVlan, of *kernel.BridgeSpec) []*models.BridgeVlan {
	if vlanText(each(list)) == fmt.Sprintf("%d pvid untagged", orZero(of.DefaultPVID)) {
		return nil
	}
	return list
}

// namesMTU reports whether an MTU is not what the kernel gives such a link.
func (v *survey) namesMTU(c *candidate) bool {
	switch below := v.links[c.below()]; {
	case below == nil || c.Type == "veth" || c.Tunnel != nil:
	case c.Vxlan != nil:
		return c.MTU != below.MTU-50 && c.MTU != below.MTU-70
	default:
		return c.MTU != below.MTU
	}
	switch c.Type {
	case "veth", "bridge", "dummy", "ifb", "bond", "tun", "vlan", "macvlan", "ipvlan":
		return c.MTU != 1500
	case "vrf":
		return c.MTU != 65575 && c.MTU != 1500
	case "vxlan", "geneve":
		return c.MTU != 1450 && c.MTU != 1430
	}
	return false // it follows from what the tunnel carries
}

// namesMAC reports whether somebody chose a hardware address. The kernel tells nobody over
// netlink: its own are random and local, or those of other links; people write 02:00:….
func (v *survey) namesMAC(c *candidate) bool {
	if c.MAC == "" || c.Type == "vrf" || c.Bond != nil && orZero(c.Bond.FailOverMAC) == "active" {
		return false
	}
	for _, other := range v.links {
		if other.Link.Ref() != c.Ref() && other.NS == c.NS && other.MAC == c.MAC {
			return false
		}
	}
	first := 0
	_, _ = fmt.Sscanf(c.MAC, "%02x", &first)
	return first&2 == 0 || strings.HasPrefix(c.MAC, "02:00:")
}

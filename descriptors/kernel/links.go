package kernel

import (
	"fmt"
	"net/netip"
	"strings"
	"syscall"
)

// Links are the network devices of a namespace.
type Links interface {
	Links(ns NS) ([]Link, error)
	Link(ns NS, name string) (Link, error)
	LinkByIndex(ns NS, index int) (Link, error)
	// LinksByName reads many with fewer calls of the kernel, and returns of each name what
	// Link would.
	LinksByName(ns NS, names []string) ([]Link, []error)
	// Carrier reports whether a link is up and has a carrier. It is not in [Link], which is what
	// was made.
	Carrier(at LinkRef) (bool, error)
	// AddLink makes a link in place, with all that the spec says, and returns
	// it, perhaps without Port. ErrExist when the name is taken; then nothing was changed.
	AddLink(ns NS, spec LinkSpec) (Link, error)
	// AddLinks makes many, in order, with fewer calls of the kernel, and returns of each what
	// AddLink would.
	AddLinks(ns NS, specs []LinkSpec) ([]Link, []error)
	// SetLink changes what the patch names.
	SetLink(ns NS, index int, p LinkPatch) error
	// SetLinks changes many, in order, with fewer calls of the kernel, and returns the error
	// of each.
	SetLinks(ns NS, changes []LinkChange) []error
	// DeleteLink removes one link; ErrNotExist if it is gone. DeleteLinks
	// removes many at once: it gives them a group of their own, makes sure that
	// nothing else is in it, and deletes the group. There links that are gone
	// are no error, nor is one that is named twice. Of each link it asks for the index, and for
	// the group, which one that cannot be deleted is given back.
	DeleteLink(ns NS, index int) error
	DeleteLinks(ns NS, links []Link) error
	// AddAltName gives a link one more name; ErrExist when a link of the namespace has it,
	// whichever of its names it is. RemoveAltName takes one from it.
	AddAltName(ns NS, index int, name string) error
	RemoveAltName(ns NS, index int, name string) error

	// Features are the offloads of a device by the kernel's names. SetFeatures asks for those
	// that are named to be on or off; what then works is for the device to say. Watch tells
	// of a change as one of the link.
	Features(ns NS, index int) (map[string]Feature, error)
	SetFeatures(ns NS, index int, on map[string]bool) error
	// Rings are those of a device; ErrUnsupported if it has none. SetRings leaves what is 0.
	// Nothing is told of it by Watch.
	Rings(ns NS, index int) (Rings, error)
	SetRings(ns NS, index int, rx, tx uint32) error

	// BridgeVLANs are those of the port of a bridge, or of a bridge itself, in their order;
	// SetBridgeVLANs makes them those of the list. A change is told by Watch as one of a
	// port.
	BridgeVLANs(ns NS, index int) ([]BridgeVLAN, error)
	SetBridgeVLANs(ns NS, index int, list []BridgeVLAN) error

	// WireGuard reads the settings of a WireGuard device. SetWireGuard writes them all;
	// peers that are not named go, and the others keep their sessions. Nothing is told of
	// it by Watch.
	WireGuard(ns NS, index int) (WireGuard, error)
	SetWireGuard(ns NS, index int, w WireGuard) error
}

// Link is a network device as the kernel shows it.
type Link struct {
	NS    NS
	Index int
	Name  string
	Type  string // "veth", "bridge", "device"
	// AltNames are its alternative names in the order of the kernel.
	AltNames []string
	Alias    string
	Group    uint32
	Up       bool
	MTU      int
	MAC      string // lower case, "" if it has none; of the port of a bond its own
	Master   int    // index in the same namespace, 0 if none
	// Parent is the link below (veth peer, vxlan, macvlan), 0 if none; it
	// lives in ParentNS, which is 0 when that namespace is not open.
	Parent   int
	ParentNS NS
	// Accepts is what the link accepts from its neighbors; nil of a field that the link does
	// not have, such as those of IPv6 where IPv6 is not.
	Accepts AcceptSpec
	// Port is how a bridge treats the link; nil of what is no port of one.
	Port *PortSpec
	// What the types say that have settings; nil of others.
	Bridge  *BridgeSpec
	Vxlan   *VxlanSpec
	Macvlan *MacvlanSpec
	Ipvlan  *IpvlanSpec
	Tuntap  *TuntapSpec
	Vlan    *VlanSpec
	Vrf     *VrfSpec
	Bond    *BondSpec
	Tunnel  *TunnelSpec
	Geneve  *GeneveSpec
}

// Feature is an offload of a device.
type Feature struct {
	On        bool
	Requested bool // to be on as soon as what it depends on lets it
	Fixed     bool // nobody can change it
}

// Rings are the packets that wait in a device on their way in and out.
type Rings struct{ RX, TX, MaxRX, MaxTX uint32 }

// AcceptSpec is what a link accepts from its neighbors, as the kernel's settings of the link
// say it; nil stays. Settings that the link does not have are skipped.
type AcceptSpec struct {
	RA         *int // net.ipv6.conf.LINK.accept_ra: 0 never, 1 unless it forwards, 2 always
	Autoconf   *int // net.ipv6.conf.LINK.autoconf
	Redirects6 *int // net.ipv6.conf.LINK.accept_redirects
	Redirects4 *int // net.ipv4.conf.LINK.accept_redirects
	// AllRedirects4 is net.ipv4.conf.all.accept_redirects of the namespace. A link that does
	// not forward accepts redirects if this or its own setting is 1, one that forwards if both
	// are. It is written only where it differs and the namespace does not forward: there it
	// leaves other links as they were, unless they have 0 themselves. It is nil when read.
	AllRedirects4 *int
}

// After is what a link accepts once s was written to one that accepted was.
func (s AcceptSpec) After(was AcceptSpec) AcceptSpec {
	after := func(was, is *int) *int {
		if was == nil || is == nil { // a link does not have it, or it stays
			return was
		}
		return is
	}
	return AcceptSpec{
		RA: after(was.RA, s.RA), Autoconf: after(was.Autoconf, s.Autoconf),
		Redirects6: after(was.Redirects6, s.Redirects6), Redirects4: after(was.Redirects4, s.Redirects4),
	}
}

// String shows the settings that are not nil.
func (s AcceptSpec) String() string {
	var words []string
	for _, f := range []struct {
		name  string
		value *int
	}{{"ra", s.RA}, {"autoconf", s.Autoconf}, {"redirects6", s.Redirects6}, {"redirects4", s.Redirects4}, {"all", s.AllRedirects4}} {
		if f.value != nil {
			words = append(words, fmt.Sprintf("%s=%d", f.name, *f.value))
		}
	}
	return strings.Join(words, " ")
}

// LinkSpec says what to make. Zero fields are left to the kernel.
type LinkSpec struct {
	Name   string
	Alias  string
	Group  uint32
	Up     bool
	MTU    int
	MAC    string
	Master int
	// Accepts is set before the link is up.
	Accepts AcceptSpec
	// Exactly one of the following.
	Veth    *VethSpec
	Bridge  *BridgeSpec
	Vxlan   *VxlanSpec
	Macvlan *MacvlanSpec
	Tuntap  *TuntapSpec
	Ipvlan  *IpvlanSpec
	Vlan    *VlanSpec
	Vrf     *VrfSpec
	Bond    *BondSpec
	Tunnel  *TunnelSpec
	Geneve  *GeneveSpec
	// Plain is the type of a link that has no settings at its birth: "dummy", "ifb",
	// "wireguard".
	Plain string
}

// OneType is nil if exactly one type is given.
func (s LinkSpec) OneType() error {
	types := 0
	for _, given := range []bool{
		s.Veth != nil, s.Bridge != nil, s.Vxlan != nil, s.Macvlan != nil, s.Ipvlan != nil, s.Tuntap != nil,
		s.Vlan != nil, s.Vrf != nil, s.Bond != nil, s.Tunnel != nil, s.Geneve != nil, s.Plain != "",
	} {
		if given {
			types++
		}
	}
	if types != 1 {
		return fmt.Errorf("exactly one type is to be given, not %d: %w", types, syscall.EINVAL)
	}
	return nil
}

// VethSpec is the other end of a veth, born in its own namespace; PeerNS 0 is
// that of the link itself.
type VethSpec struct {
	PeerNS    NS
	PeerName  string
	PeerMTU   int
	PeerMAC   string
	PeerGroup uint32
	// PeerAccepts is set before the other end is up.
	PeerAccepts AcceptSpec
	// PeerUp and PeerAlias spare the one who confirms the other end a change.
	PeerUp    bool
	PeerAlias string
}

// BridgeSpec are the settings of a bridge; nil is the kernel's default.
type BridgeSpec struct {
	STP                 *bool
	AgeingSeconds       *uint32
	MulticastSnooping   *bool
	MulticastQuerier    *bool
	VLANFiltering       *bool   // nil when read: this kernel knows none
	DefaultPVID         *uint16 // 0 for none
	Priority            *uint16
	ForwardDelaySeconds *uint32
}

// PortSpec is how a bridge treats one of its ports; nil stays.
type PortSpec struct {
	Cost           *uint32
	Priority       *uint16
	Isolated       *bool
	Hairpin        *bool
	Learning       *bool
	UnicastFlood   *bool
	MulticastFlood *bool
	BroadcastFlood *bool
	BPDUGuard      *bool
	RootBlock      *bool
	FastLeave      *bool
	NeighSuppress  *bool
}

// BridgeVLAN is one VLAN of the port of a bridge.
type BridgeVLAN struct {
	ID       int
	PVID     bool // frames that come in without a tag are of it
	Untagged bool // its frames leave without a tag
}

// VxlanSpec are the settings of a VXLAN device.
type VxlanSpec struct {
	VNI      uint32
	Local    netip.Addr
	Remote   netip.Addr // unicast or multicast group
	Port     int        // 0 leaves it to the kernel (8472)
	Parent   int
	Learning bool
	External bool // routes say the VNI and the other end, by their Encap
	// ParentNS is where the outer packets travel and Parent lives; 0 is the
	// namespace of the device itself.
	ParentNS NS
}

// MacvlanSpec are the settings of a macvlan. ParentNS 0 is the namespace of
// the device itself, here and in IpvlanSpec and VlanSpec.
type MacvlanSpec struct {
	ParentNS NS
	Parent   int
	Mode     string
}

// IpvlanSpec are the settings of an ipvlan.
type IpvlanSpec struct {
	ParentNS NS
	Parent   int
	Mode     string
}

// VlanSpec are the settings of a vlan.
type VlanSpec struct {
	ParentNS NS
	Parent   int
	ID       int
	Protocol string // 802.1q or 802.1ad
}

// VrfSpec are the settings of a vrf.
type VrfSpec struct{ Table uint32 }

// BondSpec are the settings of a bond; nil is the kernel's default. Mode and FailOverMAC
// cannot change while the bond has ports, LACPRate not while it is up.
type BondSpec struct {
	Mode           *string
	Miimon         *uint32 // milliseconds, here and in the other times
	UpDelay        *uint32 // not without Miimon
	DownDelay      *uint32 // not without Miimon
	LACPRate       *string
	XmitHashPolicy *string
	MinLinks       *uint32
	FailOverMAC    *string
	ARPInterval    *uint32
	ARPTargets     *[]netip.Addr
	AllPortsActive *bool
}

// TunnelSpec are the settings of a tunnel of IP.
type TunnelSpec struct {
	// Kind is gre, gretap, ipip or sit; with outer packets of IPv6 ip6gre, ip6gretap or
	// ip6tnl.
	Kind          string
	Local, Remote netip.Addr // the zero Addr: any
	Parent        int        // in the namespace of the tunnel
	Key           *uint32    // of gre: in both directions
	TTL           uint8      // 0: that of the inner packet
	PMTUDiscovery bool       // of IPv4
	EncapLimit    *uint32    // of IPv6, up to 255; nil: none
	Checksum      bool       // of gre: in both directions
	External      bool       // of gre: routes say the ends and the key, by their Encap
	// More: it says something that is not here, such as keys that differ by direction.
	More bool
	// Else: it has a setting that nobody makes here, such as a type of service. It goes when
	// the tunnel is changed.
	Else bool
}

// GeneveSpec are the settings of a Geneve device.
type GeneveSpec struct {
	VNI    uint32
	Remote netip.Addr
	Port   int // stays when the link is changed
	TTL    uint8
	// External: routes say the VNI and the other end, by their Encap. Then nothing changes.
	External bool
}

// WireGuard are the settings of a WireGuard device. It holds secrets: it is not to be
// printed.
type WireGuard struct {
	PrivateKey *[32]byte // nil when read
	PublicKey  [32]byte  // zero: it has no key; not written
	ListenPort int       // 0 when written: the kernel's choice
	Mark       uint32
	Peers      []WireGuardPeer
}

// WireGuardPeer is the other end of a WireGuard tunnel.
type WireGuardPeer struct {
	PublicKey [32]byte
	// PresharedKey is zero if there is none.
	PresharedKey [32]byte
	// Endpoint is where the peer was last; the zero AddrPort where that is not known, and
	// when written leaves it.
	Endpoint   netip.AddrPort
	AllowedIPs []netip.Prefix
	Keepalive  int // seconds, 0 never
}

// TuntapSpec are the settings of a persistent tun or tap device.
type TuntapSpec struct {
	Tun        bool
	Owner      *uint32
	Group      *uint32
	MultiQueue bool
	VnetHdr    bool
}

// LinkChange is a change of one link.
type LinkChange struct {
	Index int
	Patch LinkPatch
}

// LinkPatch changes a link; nil fields stay. They are applied in the order in
// which they stand here: Accepts by the files of the settings, the others in up to
// four requests: Alias, Group and Name; MAC to Master; those of Port; the settings of the type. Before Linux 6.2 a link that is up goes down
// to be renamed, and comes up without its routes and IPv6 addresses.
type LinkPatch struct {
	Accepts AcceptSpec

	Alias  *string
	Group  *uint32
	Name   *string
	MAC    *string
	MTU    *int
	Up     *bool
	Master *int // 0 takes it out; a link that is up, or goes up at once, cannot join a bond
	Port   *PortSpec
	Bridge *BridgeSpec
	Bond   *BondSpec
	// Tunnel and Geneve are the settings as a whole.
	Tunnel *TunnelSpec
	Geneve *GeneveSpec
}

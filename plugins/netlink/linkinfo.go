package netlink

import (
	"fmt"
	"math"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

// macvlanModes are the names that `ip link` uses.
var macvlanModes = map[string]uint32{"private": 1, "vepa": 2, "bridge": 4, "passthru": 8, "source": 16}

// modeNumber is the kernel's number of a mode; by default vepa, as there.
func modeNumber(name string) (uint32, error) {
	if name == "" {
		name = "vepa"
	}
	n, ok := macvlanModes[name]
	if !ok {
		return 0, fmt.Errorf("no macvlan mode %q: %w", name, unix.EINVAL)
	}
	return n, nil
}

func modeName(n uint32) string {
	for name, v := range macvlanModes {
		if v == n {
			return name
		}
	}
	return fmt.Sprint(n)
}

// addInfo adds the type of a link and the settings that data writes.
func addInfo(m *message, kind string, data func()) {
	info := m.open(unix.IFLA_LINKINFO)
	m.bytes(unix.IFLA_INFO_KIND, []byte(kind))
	at := m.open(unix.IFLA_INFO_DATA)
	data()
	m.close(at)
	m.close(info)
}

// addBridge adds the settings that are given. Ages are in hundredths of
// seconds there.
func addBridge(m *message, s *kernel.BridgeSpec) {
	if s.AgeingSeconds != nil {
		m.u32(unix.IFLA_BR_AGEING_TIME, uint32(min(uint64(*s.AgeingSeconds)*100, math.MaxUint32)))
	}
	if s.STP != nil {
		m.u32(unix.IFLA_BR_STP_STATE, number(*s.STP))
	}
	if s.MulticastSnooping != nil {
		m.u8(unix.IFLA_BR_MCAST_SNOOPING, uint8(number(*s.MulticastSnooping)))
	}
	if s.MulticastQuerier != nil {
		m.u8(unix.IFLA_BR_MCAST_QUERIER, uint8(number(*s.MulticastQuerier)))
	}
	if s.DefaultPVID != nil {
		m.u16(unix.IFLA_BR_VLAN_DEFAULT_PVID, *s.DefaultPVID)
	}
	if s.VLANFiltering != nil {
		m.u8(unix.IFLA_BR_VLAN_FILTERING, uint8(number(*s.VLANFiltering)))
	}
	if s.Priority != nil {
		m.u16(unix.IFLA_BR_PRIORITY, *s.Priority)
	}
	if s.ForwardDelaySeconds != nil {
		m.u32(unix.IFLA_BR_FORWARD_DELAY, *s.ForwardDelaySeconds*100)
	}
}

func number(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}

func addVxlan(m *message, s *kernel.VxlanSpec) {
	m.u32(unix.IFLA_VXLAN_ID, s.VNI)
	addEither := func(v4, v6 int, a netip.Addr) {
		if a = a.Unmap(); a.Is4() {
			m.addr(v4, a)
		} else if a.Is6() {
			m.addr(v6, a)
		}
	}
	addEither(unix.IFLA_VXLAN_LOCAL, unix.IFLA_VXLAN_LOCAL6, s.Local)
	addEither(unix.IFLA_VXLAN_GROUP, unix.IFLA_VXLAN_GROUP6, s.Remote)
	if s.Parent != 0 {
		m.u32(unix.IFLA_VXLAN_LINK, uint32(s.Parent))
	}
	if s.Port != 0 {
		m.be16(unix.IFLA_VXLAN_PORT, uint16(s.Port))
	}
	m.u8(unix.IFLA_VXLAN_LEARNING, uint8(number(s.Learning)))
	if s.External {
		m.u8(unix.IFLA_VXLAN_COLLECT_METADATA, 1)
	}
}

var vlanProtocols = map[string]uint16{"802.1q": unix.ETH_P_8021Q, "802.1ad": unix.ETH_P_8021AD}

var ipvlanModes = numbered("ipvlan mode", "l2", "l3", "l3s")

func addVlan(m *message, s *kernel.VlanSpec) {
	m.u16(unix.IFLA_VLAN_ID, uint16(s.ID))
	if p, ok := vlanProtocols[s.Protocol]; ok {
		m.be16(unix.IFLA_VLAN_PROTOCOL, p)
	}
}

// parsedLink is a link whose parent's namespace is still a bare id.
type parsedLink struct {
	kernel.Link
	below   int32  // IFLA_LINK_NETNSID
	abroad  bool   // the parent lives in another namespace
	portMAC string // its own hardware address while it is the port of a bond
}

// parseLink reads the body of a link message; false for what bridges say of
// their ports, which is no news about the link itself.
func parseLink(ns kernel.NS, body []byte) (l parsedLink, ok bool) {
	if len(body) < unix.SizeofIfInfomsg || body[0] != unix.AF_UNSPEC {
		return l, false
	}
	l.NS = ns
	l.Index = int(int32(asU32(body[4:])))
	l.Up = asU32(body[8:])&unix.IFF_UP != 0
	l.Type = "device"
	for typ, v := range attributes(body[unix.SizeofIfInfomsg:]) {
		switch typ {
		case unix.IFLA_IFNAME:
			l.Name = asString(v)
		case unix.IFLA_IFALIAS:
			l.Alias = asString(v)
		case unix.IFLA_GROUP:
			l.Group = asU32(v)
		case unix.IFLA_MTU:
			l.MTU = int(asU32(v))
		case unix.IFLA_ADDRESS:
			if len(v) == 6 {
				l.MAC = net.HardwareAddr(v).String()
			}
		case unix.IFLA_MASTER:
			l.Master = int(asU32(v))
		case unix.IFLA_LINK:
			l.Parent = int(asU32(v))
		case unix.IFLA_LINK_NETNSID:
			l.below, l.abroad = int32(asU32(v)), true
		case unix.IFLA_PROP_LIST:
			l.AltNames = parseAltNames(v)
		case unix.IFLA_AF_SPEC:
			l.Accepts = parseAccepts(v)
		case unix.IFLA_LINKINFO:
			l.parseInfo(v)
		}
	}
	if l.portMAC != "" {
		l.MAC = l.portMAC
	}
	return l, true
}

// complete finds the namespace of the parent.
func (k *Kernel) complete(n *namespace, l parsedLink) kernel.Link {
	switch {
	case l.Parent == 0 && !l.abroad:
	case !l.abroad:
		l.ParentNS = n.id
	case n.enter():
		l.ParentNS = k.peer(n, l.below)
		n.leave()
	}
	switch {
	case l.Macvlan != nil:
		l.Macvlan.Parent, l.Macvlan.ParentNS = l.Parent, l.ParentNS
	case l.Ipvlan != nil:
		l.Ipvlan.Parent, l.Ipvlan.ParentNS = l.Parent, l.ParentNS
	case l.Vlan != nil:
		l.Vlan.Parent, l.Vlan.ParentNS = l.Parent, l.ParentNS
	case l.Vxlan != nil:
		l.Vxlan.ParentNS = n.id
		if l.abroad {
			l.Vxlan.ParentNS = l.ParentNS
		}
	}
	return l.Link
}

// parsePortOf is the index of the link of which a bridge speaks in a link message, 0 if the
// message is about a link itself.
func parsePortOf(body []byte) int {
	if len(body) < unix.SizeofIfInfomsg || body[0] != unix.AF_BRIDGE {
		return 0
	}
	return int(int32(asU32(body[4:])))
}

func (l *parsedLink) parseInfo(b []byte) {
	var kind, portOf string
	var data, port []byte
	for typ, v := range attributes(b) {
		switch typ {
		case unix.IFLA_INFO_KIND:
			kind = asString(v)
		case unix.IFLA_INFO_DATA:
			data = v
		case unix.IFLA_INFO_SLAVE_KIND:
			portOf = asString(v)
		case unix.IFLA_INFO_SLAVE_DATA:
			port = v
		}
	}
	switch portOf {
	case "bridge":
		l.Port = parsePort(port)
	case "bond": // its address is that of the bond meanwhile
		for typ, v := range attributes(port) {
			if typ == unix.IFLA_BOND_SLAVE_PERM_HWADDR && len(v) == 6 {
				l.portMAC = net.HardwareAddr(v).String()
			}
		}
	}
	if kind == "" {
		return
	}
	l.Type = kind
	switch kind {
	case "bridge":
		l.Bridge = parseBridge(data)
	case "vxlan":
		l.Vxlan = parseVxlan(data)
	case "macvlan":
		l.Macvlan = &kernel.MacvlanSpec{}
		for typ, v := range attributes(data) {
			if typ == unix.IFLA_MACVLAN_MODE {
				l.Macvlan.Mode = modeName(asU32(v))
			}
		}
	case "ipvlan":
		l.Ipvlan = &kernel.IpvlanSpec{}
		for typ, v := range attributes(data) {
			if typ == unix.IFLA_IPVLAN_MODE {
				l.Ipvlan.Mode = ipvlanModes.name(uint32(asU16(v)))
			}
		}
	case "vlan":
		l.Vlan = parseVlan(data)
	case "tun":
		l.Tuntap = parseTuntap(data)
	case "vrf":
		l.Vrf = &kernel.VrfSpec{}
		for typ, v := range attributes(data) {
			if typ == unix.IFLA_VRF_TABLE {
				l.Vrf.Table = asU32(v)
			}
		}
	case "bond":
		l.Bond = parseBond(data)
	case "geneve":
		l.Geneve = parseGeneve(data)
	default:
		l.Tunnel = parseTunnel(kind, data)
	}
}

func parseBridge(data []byte) *kernel.BridgeSpec {
	s := &kernel.BridgeSpec{}
	for typ, v := range attributes(data) {
		switch typ {
		case unix.IFLA_BR_AGEING_TIME:
			seconds := asU32(v) / 100
			s.AgeingSeconds = &seconds
		case unix.IFLA_BR_STP_STATE:
			on := asU32(v) != 0
			s.STP = &on
		case unix.IFLA_BR_MCAST_SNOOPING:
			s.MulticastSnooping = ref(asU8(v) != 0)
		case unix.IFLA_BR_MCAST_QUERIER:
			s.MulticastQuerier = ref(asU8(v) != 0)
		case unix.IFLA_BR_VLAN_FILTERING:
			s.VLANFiltering = ref(asU8(v) != 0)
		case unix.IFLA_BR_VLAN_DEFAULT_PVID:
			s.DefaultPVID = ref(asU16(v))
		case unix.IFLA_BR_PRIORITY:
			s.Priority = ref(asU16(v))
		case unix.IFLA_BR_FORWARD_DELAY:
			s.ForwardDelaySeconds = ref(asU32(v) / 100)
		}
	}
	return s
}

func parseVxlan(data []byte) *kernel.VxlanSpec {
	s := &kernel.VxlanSpec{}
	for typ, v := range attributes(data) {
		switch typ {
		case unix.IFLA_VXLAN_ID:
			s.VNI = asU32(v)
		case unix.IFLA_VXLAN_LOCAL, unix.IFLA_VXLAN_LOCAL6:
			s.Local = asAddr(v)
		case unix.IFLA_VXLAN_GROUP, unix.IFLA_VXLAN_GROUP6:
			s.Remote = asAddr(v)
		case unix.IFLA_VXLAN_LINK:
			s.Parent = int(asU32(v))
		case unix.IFLA_VXLAN_PORT:
			s.Port = int(asBE16(v))
		case unix.IFLA_VXLAN_LEARNING:
			s.Learning = asU8(v) != 0
		case unix.IFLA_VXLAN_COLLECT_METADATA:
			s.External = asU8(v) != 0
		}
	}
	return s
}

func parseVlan(data []byte) *kernel.VlanSpec {
	s := &kernel.VlanSpec{}
	for typ, v := range attributes(data) {
		switch typ {
		case unix.IFLA_VLAN_ID:
			s.ID = int(asU16(v))
		case unix.IFLA_VLAN_PROTOCOL:
			for name, p := range vlanProtocols {
				if p == asBE16(v) {
					s.Protocol = name
				}
			}
		}
	}
	return s
}

func parseTuntap(data []byte) *kernel.TuntapSpec {
	s := &kernel.TuntapSpec{}
	for typ, v := range attributes(data) {
		switch typ {
		case unix.IFLA_TUN_OWNER:
			id := asU32(v)
			s.Owner = &id
		case unix.IFLA_TUN_GROUP:
			id := asU32(v)
			s.Group = &id
		case unix.IFLA_TUN_TYPE:
			s.Tun = asU8(v) == unix.IFF_TUN
		case unix.IFLA_TUN_VNET_HDR:
			s.VnetHdr = asU8(v) != 0
		case unix.IFLA_TUN_MULTI_QUEUE:
			s.MultiQueue = asU8(v) != 0
		}
	}
	return s
}

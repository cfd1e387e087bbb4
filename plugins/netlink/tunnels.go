package netlink

import (
	"fmt"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

// Attributes of tunnels, see linux/if_tunnel.h. Those of gre and those of the others say
// the same under other numbers.
const (
	grePMTU, gre6Flags, greCollect       = 10, 13, 18
	iptunPMTU, iptun6Flags, iptunCollect = 10, 8, 19

	greInFlags, greOutFlags, greInKey, greOutKey = 2, 3, 4, 5
)

// tunnelAttributes are the numbers of what all tunnels have.
type tunnelAttributes struct {
	link, local, remote, ttl, pmtu, flags6, collect int
	limit                                           int // of IPv6
	// These are 0 of what is made here.
	tos, flow, encap, mark int
}

var (
	greAttributes = tunnelAttributes{link: 1, local: 6, remote: 7, ttl: 8, pmtu: grePMTU, flags6: gre6Flags, collect: greCollect,
		limit: 11, tos: 9, flow: 12, encap: 14, mark: 20}
	iptunAttributes = tunnelAttributes{link: 1, local: 2, remote: 3, ttl: 4, pmtu: iptunPMTU, flags6: iptun6Flags, collect: iptunCollect,
		limit: 6, tos: 5, flow: 7, encap: 15, mark: 20}
)

// Flags of gre, in the order of the network.
const (
	greChecksum = 0x8000
	greKey      = 0x2000
)

// noEncapLimit (IP6_TNL_F_IGN_ENCAP_LIMIT) is that no packet says how many tunnels it may
// pass within this one.
const noEncapLimit = 1

// flags6Asked are the flags of a tunnel in IPv6 that somebody asks for; the kernel adds its own.
const flags6Asked = 0xff

// iptunProtocol is what a tunnel carries, and carried what it does if nobody says so. 0 is
// anything, which ip(8) asks for by itself.
const iptunProtocol = 9

var carried = map[string]uint8{"ipip": unix.IPPROTO_IPIP, "sit": unix.IPPROTO_IPV6, "ip6tnl": 0}

var (
	greKinds  = []string{"gre", "gretap", "ip6gre", "ip6gretap"}
	ipKinds   = []string{"ipip", "sit", "ip6tnl"}
	ipv6Kinds = []string{"ip6gre", "ip6gretap", "ip6tnl"}
)

// attributesOf finds the numbers for a kind of tunnel; false for what is none.
func attributesOf(kind string) (a tunnelAttributes, ok bool) {
	switch {
	case slices.Contains(greKinds, kind):
		return greAttributes, true
	case slices.Contains(ipKinds, kind):
		return iptunAttributes, true
	}
	return a, false
}

func addTunnel(m *message, s *kernel.TunnelSpec) error {
	a, ok := attributesOf(s.Kind)
	if !ok {
		return fmt.Errorf("no kind of tunnel %q: %w", s.Kind, unix.EINVAL)
	}
	ipv6 := slices.Contains(ipv6Kinds, s.Kind)
	for typ, end := range map[int]netip.Addr{a.local: s.Local, a.remote: s.Remote} {
		if !end.IsValid() {
			continue
		}
		if end.Is6() != ipv6 {
			return fmt.Errorf("%s is no address for %s: %w", end, s.Kind, unix.EINVAL)
		}
		m.addr(typ, end)
	}
	m.u32(a.link, uint32(s.Parent))
	m.u8(a.ttl, s.TTL)
	switch {
	case !ipv6:
		m.u8(a.pmtu, uint8(number(s.PMTUDiscovery)))
	case s.EncapLimit == nil:
		m.u32(a.flags6, noEncapLimit)
	default:
		m.u32(a.flags6, 0)
		m.u8(a.limit, uint8(*s.EncapLimit))
	}
	if a != greAttributes {
		return nil
	}
	var flags uint16
	if s.Key != nil {
		flags |= greKey
		m.be32(greInKey, *s.Key)
		m.be32(greOutKey, *s.Key)
	}
	if s.Checksum {
		flags |= greChecksum
	}
	m.be16(greInFlags, flags)
	m.be16(greOutFlags, flags)
	if s.External {
		m.bytes(a.collect, nil)
	}
	return nil
}

func parseTunnel(kind string, data []byte) *kernel.TunnelSpec {
	a, ok := attributesOf(kind)
	if !ok {
		return nil
	}
	s := &kernel.TunnelSpec{Kind: kind}
	limited, limit := false, uint32(0)
	var in, out struct {
		flags uint16
		key   uint32
	}
	for typ, v := range attributes(data) {
		switch typ {
		case a.link:
			s.Parent = int(asU32(v))
			continue
		case a.local:
			s.Local = given(asAddr(v))
			continue
		case a.remote:
			s.Remote = given(asAddr(v))
			continue
		case a.ttl:
			s.TTL = asU8(v)
			continue
		case a.collect:
			s.External = a == greAttributes
			s.More = s.More || !s.External
			continue
		case a.tos, a.encap, a.mark:
			s.Else = s.Else || !zero(v)
			continue
		}
		switch {
		case typ == a.flow && slices.Contains(ipv6Kinds, kind):
			s.Else = s.Else || !zero(v)
		case typ == a.flags6 && slices.Contains(ipv6Kinds, kind):
			limited = asU32(v)&noEncapLimit == 0
			s.Else = s.Else || asU32(v)&flags6Asked&^noEncapLimit != 0
		case typ == a.limit && slices.Contains(ipv6Kinds, kind):
			limit = uint32(asU8(v))
		case a == iptunAttributes && typ == iptunProtocol:
			s.Else = s.Else || asU8(v) != 0 && asU8(v) != carried[kind]
		case typ == a.pmtu && !slices.Contains(ipv6Kinds, kind):
			s.PMTUDiscovery = asU8(v) != 0
		case a != greAttributes:
		case typ == greInFlags:
			in.flags = asBE16(v)
		case typ == greOutFlags:
			out.flags = asBE16(v)
		case typ == greInKey:
			in.key = asBE32(v)
		case typ == greOutKey:
			out.key = asBE32(v)
		}
	}
	if limited {
		s.EncapLimit = &limit
	}
	if in.flags&greKey != 0 {
		s.Key = &in.key
	}
	s.Checksum = in.flags&greChecksum != 0
	s.More = s.More || in != out
	s.Else = s.Else || in.flags&^(greChecksum|greKey) != 0
	return s
}

func zero(v []byte) bool { return !slices.ContainsFunc(v, func(b byte) bool { return b != 0 }) }

// given is an address, or the zero Addr for the kernel's any.
func given(a netip.Addr) netip.Addr {
	if a.IsUnspecified() {
		return netip.Addr{}
	}
	return a
}

func addGeneve(m *message, s *kernel.GeneveSpec) {
	m.u32(unix.IFLA_GENEVE_ID, s.VNI)
	switch {
	case s.External:
		m.bytes(unix.IFLA_GENEVE_COLLECT_METADATA, nil)
	case s.Remote.Is4():
		m.addr(unix.IFLA_GENEVE_REMOTE, s.Remote)
	default:
		m.addr(unix.IFLA_GENEVE_REMOTE6, s.Remote)
	}
	if s.Port != 0 { // a link that is there refuses to be told
		m.be16(unix.IFLA_GENEVE_PORT, uint16(s.Port))
	}
	m.u8(unix.IFLA_GENEVE_TTL, s.TTL)
}

func parseGeneve(data []byte) *kernel.GeneveSpec {
	s := &kernel.GeneveSpec{}
	for typ, v := range attributes(data) {
		switch typ {
		case unix.IFLA_GENEVE_ID:
			s.VNI = asU32(v)
		case unix.IFLA_GENEVE_REMOTE, unix.IFLA_GENEVE_REMOTE6:
			s.Remote = given(asAddr(v))
		case unix.IFLA_GENEVE_COLLECT_METADATA:
			s.External = true
		case unix.IFLA_GENEVE_PORT:
			s.Port = int(asBE16(v))
		case unix.IFLA_GENEVE_TTL:
			s.TTL = asU8(v)
		}
	}
	return s
}

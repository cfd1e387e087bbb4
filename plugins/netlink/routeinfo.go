package netlink

import (
	"net/netip"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

// names are what `ip route` calls a number; other numbers are their own name.
type names map[uint8]string

var routeTypes = names{
	unix.RTN_UNICAST: "unicast", unix.RTN_LOCAL: "local", unix.RTN_BROADCAST: "broadcast",
	unix.RTN_ANYCAST: "anycast", unix.RTN_MULTICAST: "multicast", unix.RTN_BLACKHOLE: "blackhole",
	unix.RTN_UNREACHABLE: "unreachable", unix.RTN_PROHIBIT: "prohibit", unix.RTN_THROW: "throw",
	unix.RTN_NAT: "nat",
}

var routeScopes = names{
	unix.RT_SCOPE_UNIVERSE: "global", unix.RT_SCOPE_SITE: "site", unix.RT_SCOPE_LINK: "link",
	unix.RT_SCOPE_HOST: "host", unix.RT_SCOPE_NOWHERE: "nowhere",
}

func (t names) name(n uint8) string {
	if s, ok := t[n]; ok {
		return s
	}
	return strconv.Itoa(int(n))
}

func (t names) number(name string) (uint8, bool) {
	for n, s := range t {
		if s == name {
			return n, true
		}
	}
	n, err := strconv.ParseUint(name, 10, 8)
	return uint8(n), err == nil
}

// parseRoute reads the body of a route message; false for cached entries, for
// the kernel's own in table local, and for families that are not IP.
func parseRoute(body []byte) (r kernel.Route, ok bool) {
	r, ok = parseAnyRoute(body)
	return r, ok && !kernelsOwn(r)
}

// kernelsOwn reports whether a route is an entry of the kernel in table local.
func kernelsOwn(r kernel.Route) bool {
	return r.Table == unix.RT_TABLE_LOCAL && r.Protocol == unix.RTPROT_KERNEL
}

// parseAnyRoute is parseRoute that also reads the kernel's own entries in table local.
func parseAnyRoute(body []byte) (r kernel.Route, ok bool) {
	if len(body) < unix.SizeofRtMsg {
		return r, false
	}
	family, flags := body[0], asU32(body[8:])
	if family != unix.AF_INET && family != unix.AF_INET6 || flags&unix.RTM_F_CLONED != 0 {
		return r, false
	}
	var dst netip.Addr
	if family == unix.AF_INET {
		dst = netip.IPv4Unspecified()
	} else {
		dst = netip.IPv6Unspecified()
	}
	r.TOS, r.Table, r.Protocol = body[3], uint32(body[4]), body[5]
	r.Scope, r.Type = routeScopes.name(body[6]), routeTypes.name(body[7])
	r.Onlink = flags&unix.RTNH_F_ONLINK != 0
	var encap uint16
	var within []byte
	for typ, v := range attributes(body[unix.SizeofRtMsg:]) {
		switch typ {
		case unix.RTA_ENCAP_TYPE:
			encap = asU16(v)
		case unix.RTA_ENCAP:
			within = v
		case unix.RTA_TABLE:
			r.Table = asU32(v)
		case unix.RTA_DST:
			dst = asAddr(v)
		case unix.RTA_PRIORITY:
			r.Metric = asU32(v)
		case unix.RTA_PREFSRC:
			r.Src = asAddr(v)
		case unix.RTA_OIF:
			r.Index = int(asU32(v))
		case unix.RTA_GATEWAY:
			r.Gateway = asAddr(v)
		case unix.RTA_VIA:
			r.Gateway = asVia(v)
		case unix.RTA_METRICS:
			var more bool
			r.MTU, more = routeMetrics(v)
			r.More = r.More || more
		case unix.RTA_PREF: // of routers, RFC 4191; 0 is medium
			r.More = r.More || len(v) > 0 && v[0] != 0
		case unix.RTA_FLOW, rtaTTLPropagate:
			r.More = true
		case unix.RTA_CACHEINFO: // expires is the third field of struct rta_cacheinfo
			r.More = r.More || len(v) >= 12 && asU32(v[8:]) != 0
		case unix.RTA_MULTIPATH:
			r.NextHops, r.Onlink = parseWays(v)
		case rtaNexthop:
			r.Nexthop = asU32(v)
		}
	}
	r.Encap = parseEncap(encap, within)
	if r.Nexthop != 0 { // a route of a blackhole is shown as one, and is none when that changes
		r.Type, r.Onlink = routeTypes[unix.RTN_UNICAST], false
	}
	r.Dst = netip.PrefixFrom(dst, int(body[1]))
	return r, r.Dst.IsValid()
}

// rtaNexthop is RTA_NH_ID, which golang.org/x/sys/unix does not name.
const rtaNexthop = 30

// rtaTTLPropagate is RTA_TTL_PROPAGATE.
const rtaTTLPropagate = 26

// routeMetrics reads the MTU, and whether other metrics are set.
func routeMetrics(b []byte) (mtu int, more bool) {
	for typ, v := range attributes(b) {
		if typ == unix.RTAX_MTU {
			mtu = int(asU32(v))
		} else if typ == unix.RTAX_CC_ALGO || asU32(v) != 0 {
			more = true
		}
	}
	return mtu, more
}

// asVia reads a gateway of another family, which stands before it.
func asVia(b []byte) netip.Addr {
	if len(b) < 2 {
		return netip.Addr{}
	}
	return asAddr(b[2:])
}

// parseWays reads a list of struct rtnexthop, each with its attributes.
func parseWays(b []byte) (ways []kernel.NextHop, onlink bool) {
	for len(b) >= unix.SizeofRtNexthop {
		size := int(native.Uint16(b))
		if size < unix.SizeofRtNexthop || size > len(b) {
			break
		}
		h := kernel.NextHop{Index: int(asU32(b[4:])), Weight: int(b[3]) + 1}
		onlink = onlink || b[2]&unix.RTNH_F_ONLINK != 0
		var encap uint16
		var within []byte
		for typ, v := range attributes(b[unix.SizeofRtNexthop:size]) {
			switch typ {
			case unix.RTA_ENCAP_TYPE:
				encap = asU16(v)
			case unix.RTA_ENCAP:
				within = v
			case unix.RTA_GATEWAY:
				h.Gateway = asAddr(v)
			case unix.RTA_VIA:
				h.Gateway = asVia(v)
			}
		}
		h.Encap = parseEncap(encap, within)
		ways = append(ways, h)
		b = b[min(align(size), len(b)):]
	}
	return ways, onlink
}

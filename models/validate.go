package models

import (
	"net"
	"net/netip"
	"strings"

	"google.golang.org/protobuf/proto"
)

// ClaimPrefix marks an address that an ipclaim holds: claim:<ipclaim>.
const ClaimPrefix = "claim:"

// Validate says what is wrong with a value of the right shape: numbers out of
// range, addresses that are none, fields that exclude or need each other. It
// returns an *InvalidError or nil. What is observed is always valid.
func Validate(key string, msg proto.Message) error {
	_, name, err := SplitKey(key)
	if err != nil {
		return err
	}
	var f findings
	switch v := msg.(type) {
	case *NetNS:
	case *Interface:
		checkLimits(v.ProtoReflect(), "", &f)
		v.check(name, &f)
	case *Route:
		checkLimits(v.ProtoReflect(), "", &f)
		v.check(&f)
	case *Address:
		checkLimits(v.ProtoReflect(), "", &f)
		v.check(&f)
	case *Neighbor:
		v.check(&f)
	case *Rule:
		checkLimits(v.ProtoReflect(), "", &f)
		v.check(&f)
	case *Nexthop:
		checkLimits(v.ProtoReflect(), "", &f)
		v.check(&f)
	case *FDB:
		checkLimits(v.ProtoReflect(), "", &f)
		v.check(&f)
	case *Qdisc:
		checkLimits(v.ProtoReflect(), "", &f)
		v.check(&f)
	case *Mirror:
		checkLimits(v.ProtoReflect(), "", &f)
		v.check(&f)
	case *Nftables:
		checkLimits(v.ProtoReflect(), "", &f)
		v.check(name, &f)
	case *Sysctl:
		checkLimits(v.ProtoReflect(), "", &f)
		v.check(&f)
	case *Forward:
		checkRef(v.GetInterface(), "interface", "an interface", &f)
	case *Proxy:
		checkLimits(v.ProtoReflect(), "", &f)
		v.check(&f)
	case *IPPool:
		checkLimits(v.ProtoReflect(), "", &f)
		v.check(&f)
	case *IPClaim:
		v.check(&f)
	}
	return f.err()
}

// checkRef checks the logical name of an interface that a value refers to.
func checkRef(name, path, what string, f *findings) {
	checkName(name, KindInterface, path, what, f)
}

// checkName checks the name of another value that a value refers to.
func checkName(name, kind, path, what string, f *findings) {
	if name == "" {
		f.add(path, "must be given: the logical name of %s", what)
		return
	}
	if rest, ok := strings.CutPrefix(name, kind+"/"); ok && CheckName(rest) == nil {
		f.add(path, "must be a logical name, not a key; did you mean %s?", rest)
		return
	}
	if err := CheckName(name); err != nil {
		f.add(path, "%v", err)
	}
}

const zeroMAC = "00:00:00:00:00:00"

// checkMAC checks a hardware address of one station.
func checkMAC(text, path string, f *findings) bool {
	mac, err := net.ParseMAC(text)
	switch {
	case err != nil || len(mac) != 6:
		f.add(path, "%q is no hardware address such as 02:00:00:00:00:01", text)
	case !strings.EqualFold(mac.String(), text):
		f.add(path, "%q must be written with colons, %s", text, mac)
	case mac[0]&1 != 0:
		f.add(path, "%s is a multicast address; the first byte must be even", mac)
	default:
		return true
	}
	return false
}

// parseCIDR reads an address with its length; what is an example of one.
func parseCIDR(s, path string, f *findings) (netip.Prefix, bool) {
	p, err := netip.ParsePrefix(s)
	if err == nil {
		return p, checkAddr(p.Addr(), path, f)
	}
	if a, err := netip.ParseAddr(s); err == nil && a.Zone() == "" {
		if a.Is4() {
			f.add(path, "%s has no length; did you mean %s/32 or %s/24?", s, a, a)
		} else {
			f.add(path, "%s has no length; did you mean %s/128 or %s/64?", s, a, a)
		}
		return p, false
	}
	if host, _, ok := strings.Cut(s, "/"); ok {
		if a, err := netip.ParseAddr(host); err == nil && a.Zone() == "" {
			f.add(path, "%q has a bad length; it is a number from 0 to %d", s, a.BitLen())
			return p, false
		}
	}
	f.add(path, "%q is no address in CIDR notation such as 10.0.0.1/24 or fd00::1/64", s)
	return p, false
}

// parseIP reads an address without a length.
func parseIP(s, path string, f *findings) (netip.Addr, bool) {
	a, err := netip.ParseAddr(s)
	if err == nil {
		return a, checkAddr(a, path, f)
	}
	if p, err := netip.ParsePrefix(s); err == nil {
		f.add(path, "%s must stand without a length; did you mean %s?", s, p.Addr())
		return a, false
	}
	f.add(path, "%q is no IP address such as 10.0.0.1 or fd00::1", s)
	return a, false
}

func checkAddr(a netip.Addr, path string, f *findings) bool {
	switch {
	case a.Zone() != "":
		f.add(path, "%s names a zone; the interface is named elsewhere, write %s", a, a.WithZone(""))
	case a.Is4In6():
		f.add(path, "%s is an IPv4 address in IPv6 clothes; write %s", a, a.Unmap())
	default:
		return true
	}
	return false
}

// checkUnicast refuses addresses that no host can have.
func checkUnicast(a netip.Addr, path string, f *findings) {
	switch {
	case a.IsUnspecified():
		f.add(path, "%s is the unspecified address; no host has it", a)
	case a.IsMulticast():
		f.add(path, "%s is a multicast group; no host has it", a)
	case a == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		f.add(path, "%s is the broadcast address; no host has it", a)
	}
}

func family(a netip.Addr) string {
	if a.Is4() {
		return "IPv4"
	}
	return "IPv6"
}

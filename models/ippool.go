package models

import (
	"fmt"
	"net/netip"
	"strings"
)

// Range is addresses of one family, from the first to the last.
type Range struct{ First, Last netip.Addr }

// Contains reports whether an address is in the range.
func (r Range) Contains(a netip.Addr) bool {
	return a.BitLen() == r.First.BitLen() && r.First.Compare(a) <= 0 && a.Compare(r.Last) <= 0
}

// RangeOf is all addresses of a network.
func RangeOf(p netip.Prefix) Range {
	p = p.Masked()
	last := p.Addr().AsSlice()
	for i := range last {
		if bits := p.Bits() - 8*i; bits <= 0 {
			last[i] = 0xff
		} else if bits < 8 {
			last[i] |= 0xff >> bits
		}
	}
	a, _ := netip.AddrFromSlice(last)
	return Range{p.Addr(), a}
}

// ReservedRanges are the reserved addresses, as written.
func (x *IPPool) ReservedRanges() []Range {
	var list []Range
	for _, s := range x.GetReserved() {
		if r, err := parseRange(s); err == nil {
			list = append(list, r)
		}
	}
	return list
}

func parseRange(s string) (Range, error) {
	if a, err := netip.ParseAddr(s); err == nil {
		return Range{a, a}, nil
	}
	if p, err := netip.ParsePrefix(s); err == nil {
		if p != p.Masked() {
			return Range{}, fmt.Errorf("%s has host bits set; the network is %s", s, p.Masked())
		}
		return RangeOf(p), nil
	}
	from, to, _ := strings.Cut(s, "-")
	first, err := netip.ParseAddr(strings.TrimSpace(from))
	last, err2 := netip.ParseAddr(strings.TrimSpace(to))
	switch {
	case err != nil || err2 != nil:
		return Range{}, fmt.Errorf("%q is neither an address, nor a network such as 10.0.0.0/28, nor a range such as 10.0.0.1-10.0.0.9", s)
	case first.BitLen() != last.BitLen():
		return Range{}, fmt.Errorf("%q begins in %s and ends in %s", s, family(first), family(last))
	case last.Less(first):
		return Range{}, fmt.Errorf("%q ends before it begins; did you mean %s-%s?", s, last, first)
	}
	return Range{first, last}, nil
}

func (x *IPPool) check(f *findings) {
	if x.Network == "" {
		f.add("network", "must be given, such as 10.0.0.0/24 or fd00::/64")
		return
	}
	network, ok := parseCIDR(x.Network, "network", f)
	switch {
	case !ok:
		return
	case network != network.Masked():
		f.add("network", "%s has host bits set; the network is %s", x.Network, network.Masked())
		return
	case network.Addr().IsMulticast():
		f.add("network", "%s are multicast groups; no host has them", network)
		return
	}
	x.checkGateway(network, f)
	x.checkClaimLength(network, f)
	all := RangeOf(network)
	for i, s := range x.Reserved {
		at := fmt.Sprintf("reserved[%d]", i)
		r, err := parseRange(s)
		switch {
		case err != nil:
			f.add(at, "%v", err)
		case !checkAddr(r.First, at, f) || !checkAddr(r.Last, at, f):
		case !all.Contains(r.First) || !all.Contains(r.Last):
			f.add(at, "%s is not within %s", s, network)
		}
	}
}

func (x *IPPool) checkClaimLength(network netip.Prefix, f *findings) {
	least, most := uint32(network.Bits()), uint32(network.Addr().BitLen())
	if n := x.ClaimLength; n != 0 && n <= 128 && (n < least || n > most) {
		f.add("claim_length", "must be from %d, the length of network, to %d, not %d", least, most, n)
	}
}

func (x *IPPool) checkGateway(network netip.Prefix, f *findings) {
	if x.Gateway == "" {
		return
	}
	if gw, ok := parseIP(x.Gateway, "gateway", f); ok && !network.Contains(gw) {
		f.add("gateway", "%s is not in %s", gw, network)
	}
}

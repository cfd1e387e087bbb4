package pool

import (
	"cmp"
	"fmt"
	"math/big"
	"net/netip"
	"slices"
)

// Spec is what a pool consists of. Who makes one has checked it.
type Spec struct {
	// Network is without host bits.
	Network netip.Prefix
	// Closed are ranges within the network that are given only to who asks for
	// an address of them: the gateway, what is reserved.
	Closed []Range
	// Length of the addresses as they are given. 0: that of the network.
	Length int
}

// Range is addresses from the first to the last.
type Range struct{ First, Last netip.Addr }

func (r Range) contains(a netip.Addr) bool { return r.First.Compare(a) <= 0 && a.Compare(r.Last) <= 0 }

// shape is a Spec with its ranges in order.
type shape struct {
	network netip.Prefix
	length  int     // of the addresses as they are given
	all     Range   // of the network
	nobody  []Range // addresses that no host can have
	closed  []Range // sorted, apart from each other; holds nobody too
	full    string  // says that nothing is left for who asks for any address
}

func shapeOf(s Spec) shape {
	sh := shape{network: s.Network, length: cmp.Or(s.Length, s.Network.Bits()), all: rangeOf(s.Network)}
	first, last, bits := sh.all.First, sh.all.Last, s.Network.Addr().BitLen()
	if bits-s.Network.Bits() > 1 {
		sh.nobody = append(sh.nobody, Range{first, first})
		if first.Is4() {
			sh.nobody = append(sh.nobody, Range{last, last})
		}
	}
	sh.closed = merged(slices.Concat(s.Closed, sh.nobody))
	sh.full = sh.taken()
	return sh
}

// rangeOf is all addresses of a network.
func rangeOf(p netip.Prefix) Range {
	last := p.Masked().Addr().AsSlice()
	for i := p.Bits(); i < 8*len(last); i++ {
		last[i/8] |= 0x80 >> (i % 8)
	}
	end, _ := netip.AddrFromSlice(last)
	return Range{p.Masked().Addr(), end}
}

// merged sorts ranges and joins those that touch.
func merged(list []Range) []Range {
	slices.SortFunc(list, func(a, b Range) int { return a.First.Compare(b.First) })
	var out []Range
	for _, r := range list {
		if n := len(out) - 1; n >= 0 && (out[n].contains(r.First) || out[n].Last.Next() == r.First) {
			if out[n].Last.Less(r.Last) {
				out[n].Last = r.Last
			}
			continue
		}
		out = append(out, r)
	}
	return out
}

// closedAt is the closed range that holds the address.
func (s *shape) closedAt(a netip.Addr) (Range, bool) {
	i, exact := slices.BinarySearchFunc(s.closed, a, func(r Range, a netip.Addr) int { return r.First.Compare(a) })
	if !exact {
		i--
	}
	if i >= 0 && s.closed[i].contains(a) {
		return s.closed[i], true
	}
	return Range{}, false
}

// open reports whether an address may be given to who asks for any.
func (s *shape) open(a netip.Addr) bool {
	_, closed := s.closedAt(a)
	return s.network.Contains(a) && !closed
}

// refuses says why nobody can have an address, "" if somebody can.
func (s *shape) refuses(a netip.Addr) string {
	switch {
	case !s.network.Contains(a):
		return fmt.Sprintf("%s is not in %s", a, s.network)
	case len(s.nobody) > 0 && a == s.nobody[0].First:
		return fmt.Sprintf("%s is the address of the network %s itself", a, s.network)
	case len(s.nobody) > 1 && a == s.nobody[1].First:
		return fmt.Sprintf("%s is the broadcast address of %s", a, s.network)
	}
	return ""
}

// taken counts, so it is asked once.
func (s *shape) taken() string {
	n := new(big.Int).Lsh(big.NewInt(1), uint(s.network.Addr().BitLen()-s.network.Bits()))
	for _, r := range s.closed {
		n.Sub(n, count(r))
	}
	switch n.String() {
	case "0":
		return fmt.Sprintf("%s has no address for who does not ask for it by its name: all are reserved", s.network)
	case "1":
		return fmt.Sprintf("the only address of %s is taken", s.network)
	}
	return fmt.Sprintf("all %s addresses of %s are taken", n, s.network)
}

func count(r Range) *big.Int {
	n := new(big.Int).SetBytes(r.Last.AsSlice())
	n.Sub(n, new(big.Int).SetBytes(r.First.AsSlice()))
	return n.Add(n, big.NewInt(1))
}

// Ask is what a claim asks for: this address, or any if there is none.
type Ask struct {
	Claim string
	Addr  netip.Addr
}

func (a Ask) any() bool { return !a.Addr.IsValid() }

func (a Ask) String() string {
	if a.any() {
		return a.Claim
	}
	return a.Claim + "=" + a.Addr.String()
}

func compareAsks(a, b Ask) int {
	return cmp.Or(cmp.Compare(a.Claim, b.Claim), a.Addr.Compare(b.Addr))
}

// Lease is what the pool has for an ask: an address with the length that the pool
// gives, or why there is none.
type Lease struct {
	Addr netip.Prefix
	Why  string
}

package kernel

import (
	"cmp"
	"net/netip"
	"slices"
	"strconv"
)

// LinkRef finds a link: an index counts only within its namespace.
type LinkRef struct {
	NS    NS  `json:"ns"`
	Index int `json:"index"`
}

// String is made for comparing and for logs: "4026532008/7".
func (r LinkRef) String() string {
	return strconv.FormatUint(uint64(r.NS), 10) + "/" + strconv.Itoa(r.Index)
}

// AddressRef finds an address of a link.
type AddressRef struct {
	LinkRef
	Prefix netip.Prefix `json:"prefix"` // host bits kept
}

// Ref is where the link is.
func (l Link) Ref() LinkRef { return LinkRef{NS: l.NS, Index: l.Index} }

// FindLink returns the link with an index of links that are sorted by it, as [Links] reads them.
func FindLink(sorted []Link, index int) (Link, bool) {
	i, there := slices.BinarySearchFunc(sorted, index, func(l Link, index int) int { return cmp.Compare(l.Index, index) })
	if !there {
		return Link{}, false
	}
	return sorted[i], true
}

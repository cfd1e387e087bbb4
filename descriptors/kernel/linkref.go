package kernel

import (
	"net/netip"
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

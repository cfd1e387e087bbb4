package kernel

import (
	"net/netip"
	"slices"
)

// Flows are the connections that a namespace tracks, with their translated addresses: the kernel
// decides on translation for the first packet of a connection, and keeps to it as long as packets
// come. There are no events about them.
type Flows interface {
	// DeleteFlows deletes the tracked connections for which stale returns true, and returns how
	// many. With like, stale decides only on the connections that are like at least one of them,
	// see [Flow.Like]. The next packet of a deleted connection begins a new one. A kernel without
	// connection tracking has none.
	DeleteFlows(ns NS, stale func(Flow) bool, like ...Flow) (deleted int, err error)
}

// Flow is a tracked connection.
type Flow struct {
	// Protocol is its number in IP headers.
	Protocol uint8
	// Original is the direction of the first packet, before translation. Reply is the direction
	// of the answers: its source is the destination after translation, its destination the source
	// after translation.
	Original, Reply Tuple
}

// Tuple is one direction of a connection. Ports are 0 for protocols without ports.
type Tuple struct{ Source, Destination netip.AddrPort }

// Like reports whether a connection equals a pattern in all that the pattern specifies. Protocols
// and ports of 0 and invalid addresses are not specified, and an unspecified address, 0.0.0.0 or
// ::, specifies only the family.
func (f Flow) Like(p Flow) bool {
	like := func(at, p netip.AddrPort) bool {
		a, b := at.Addr(), p.Addr()
		return (p.Port() == 0 || p.Port() == at.Port()) && (!b.IsValid() || a == b || b.IsUnspecified() && a.Is4() == b.Is4())
	}
	return (p.Protocol == 0 || p.Protocol == f.Protocol) &&
		like(f.Original.Source, p.Original.Source) && like(f.Original.Destination, p.Original.Destination) &&
		like(f.Reply.Source, p.Reply.Source) && like(f.Reply.Destination, p.Reply.Destination)
}

// WithAddress returns the patterns of the connections whose packets an address sends or, after
// translation, receives.
func WithAddress(a netip.Addr) []Flow {
	at := Tuple{Source: netip.AddrPortFrom(a, 0)}
	return []Flow{{Original: at}, {Reply: at}}
}

// LikeAny reports whether a connection is like at least one of the patterns, or there are none.
func (f Flow) LikeAny(patterns []Flow) bool {
	return len(patterns) == 0 || slices.ContainsFunc(patterns, f.Like)
}

// SourceTranslated reports whether the source is translated.
func (f Flow) SourceTranslated() bool { return f.Original.Source.Addr() != f.Reply.Destination.Addr() }
